package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// parentName makes the test's binary a parent that starts a gate and waits to
// be killed.
const parentName = "aisb-gate-test-parent"

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Name:
		corrupt()
		os.Exit(Main())
	case parentName:
		os.Exit(parent(os.Args[1]))
	}
	os.Exit(m.Run())
}

// listen opens what a gate needs.
func listen(t testing.TB, dir string) Listeners {
	t.Helper()
	var files Listeners
	for _, l := range []**net.TCPListener{&files.Gate, &files.Canary} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		*l = ln.(*net.TCPListener)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	files.Log = log
	return files
}

func lines(texts ...string) []policy.Line {
	var out []policy.Line
	for _, s := range texts {
		out = append(out, policy.Line{Text: s, Origin: "--allow"})
	}
	return out
}

func proxied(files Listeners) *http.Client {
	via := &url.URL{Scheme: "http", Host: files.Gate.Addr().String()}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(via), DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

func TestRun(t *testing.T) {
	origin, err := fakes.StartHTTP("127.0.0.1:0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	dir := t.TempDir()
	files := listen(t, dir)
	service := fmt.Sprintf("%s:%d", policy.ServiceHost, origin.Addr.Port())
	cfg := Config{Run: "run-1", Allow: lines(service), Key: []byte("key"), RunDir: filepath.Join(dir, "run")}
	p, err := Start(t.Context(), "/proc/self/exe", cfg, files)
	if err != nil {
		t.Fatal(err)
	}
	// Not even its own user may look into it, only root.
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID()))
	if os.Getuid() != 0 && !errors.Is(err, os.ErrPermission) || os.Getuid() == 0 && err != nil || len(env) > 0 {
		t.Errorf("the gate's environment: %q, %v", env, err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.PID()))
	if core := regexp.MustCompile(`(?m)^Max core file size +1 +1 `); err != nil || !core.Match(limits) {
		t.Errorf("a core handler in a pipe would get the gate's memory: %v\n%s", err, limits)
	}
	if sid, err := syscall.Getpgid(p.PID()); err != nil || sid != p.PID() {
		t.Errorf("the gate's process group: %d, %v", sid, err)
	}
	// By hand: a stranger is answered without having asked, which no HTTP client likes.
	stranger, err := net.Dial("tcp", files.Gate.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	const foreign = "HTTP/1.1 403 Blocked by aisb: foreign-client\r\n"
	if line, err := bufio.NewReader(stranger).ReadString('\n'); line != foreign {
		t.Fatalf("before pasta is named: %q, %v", line, err)
	}
	if err := p.Pasta(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if err := p.Pasta(0); err == nil {
		t.Error("no process is taken for one")
	}
	resp, err := proxied(files).Get("http://" + service)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	resp, err = proxied(files).Get("http://evil.test")
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("%v, %v", resp, err)
	}
	canary, err := net.Dial("tcp", files.Canary.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := canary.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the canary says %v", err)
	}
	report, err := p.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Hosts) != 1 || len(report.Refusals) != 1 || report.Foreign != 1 || report.Canary != 1 || report.Refusals[0].Allow != "evil.test" {
		t.Errorf("report %+v", report)
	}
	checkLog(t, dir)
	// The parent's listener still works, for the parent.
	files.Gate.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := files.Gate.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("accept after the gate's end: %v", err)
	}
}

func checkLog(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["run"] != "run-1" {
			t.Errorf("line %q: %v", line, err)
		}
		events = append(events, fmt.Sprint(m["event"]))
	}
	// A connection's close may come after the next one's first line.
	ordered := strings.Join(events, " ")
	slices.Sort(events)
	if got := strings.Join(events, " "); got != "allow close deny exit foreign-client foreign-client listening" ||
		!strings.HasPrefix(ordered, "listening ") || !strings.HasSuffix(ordered, " exit") {
		t.Errorf("events %s", ordered)
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"rule":     {Allow: lines("https://x/")},
		"resolver": {Resolver: "dns.example"},
	} {
		p, err := Start(t.Context(), "/proc/self/exe", cfg, listen(t, t.TempDir()))
		if err == nil {
			p.Stop(t.Context())
			t.Errorf("%s: started", name)
			continue
		}
		if !strings.Contains(err.Error(), "https://x/") && !strings.Contains(err.Error(), "dns.example") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(t.Context(), "/nonexistent", Config{}, listen(t, t.TempDir())); err == nil {
		t.Error("started nothing")
	}
	// A binary that is no gate.
	if _, err := Start(t.Context(), "/bin/true", Config{}, listen(t, t.TempDir())); err == nil {
		t.Error("started /bin/true")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, "/proc/self/exe", Config{}, listen(t, t.TempDir())); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A gate that is killed is noticed, and a report of it is an error.
func TestGateDies(t *testing.T) {
	p, err := Start(t.Context(), "/proc/self/exe", Config{}, listen(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.Done()
	if _, err := p.Stop(t.Context()); err == nil {
		t.Error("a dead gate gives a report")
	}
	if err := p.Pasta(1); err == nil {
		t.Error("a dead gate takes requests")
	}
}

// Stop kills a gate that does not answer in time.
func TestStopInTime(t *testing.T) {
	p, err := Start(t.Context(), "/proc/self/exe", Config{}, listen(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.PID(), syscall.SIGSTOP)
	for !stopped(t, p.PID()) { // the signal takes its time
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Stop(ctx); err == nil {
		t.Error("a stopped gate gives a report")
	}
	<-p.Done()
}

// TestNoAnswer: a gate that hangs is not waited for, whatever is asked.
func TestNoAnswer(t *testing.T) {
	files := listen(t, t.TempDir())
	p, err := Start(t.Context(), "/proc/self/exe", Config{}, files)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.PID(), syscall.SIGSTOP)
	t.Cleanup(func() {
		p.kill()
		<-p.Done()
	})
	for !stopped(t, p.PID()) { // the signal takes its time
		time.Sleep(time.Millisecond)
	}
	p.patience = 100 * time.Millisecond
	failed := make(chan error, 1)
	go func() { failed <- p.Serve(files.Log) }()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("a stopped gate takes requests")
		}
	case <-time.After(answerTimeout / 2):
		t.Fatal("a stopped gate is waited for")
	}
}

// stopped reports whether all threads have stopped: each does so for itself.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if _, rest, _ := strings.Cut(string(stat), ") "); err != nil || !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

// When the parent is killed, the gate ends at once and removes the run's
// directory.
func TestLifeline(t *testing.T) {
	dir := t.TempDir()
	runDir := filepath.Join(dir, "run")
	if err := os.Mkdir(runDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runDir, "env"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{parentName, dir}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var addr string
	if _, err := fmt.Fscanln(out, &pid, &addr); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cmd.Process.Kill()
	cmd.Wait()
	gone := func() bool {
		_, err := os.Stat(runDir)
		c, dialErr := net.Dial("tcp", addr)
		if dialErr == nil {
			c.Close()
		}
		return errors.Is(err, os.ErrNotExist) && dialErr != nil && !runs(pid)
	}
	for !gone() && time.Since(begin) < 20*time.Second {
		time.Sleep(time.Millisecond)
	}
	if !gone() {
		t.Fatal("the gate, its port or its directory is still there")
	}
	t.Logf("gone after %v", time.Since(begin))
}

// runs reports whether a process exists that has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest != "" && rest[0] != 'Z'
}

// parent starts a gate, says so and waits.
func parent(dir string) int {
	gateLn, err1 := net.Listen("tcp", "127.0.0.1:0")
	canary, err2 := net.Listen("tcp", "127.0.0.1:0")
	log, err3 := os.OpenFile(filepath.Join(dir, "log.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p, err := Start(context.Background(), "/proc/self/exe", Config{RunDir: filepath.Join(dir, "run")},
		Listeners{Gate: gateLn.(*net.TCPListener), Canary: canary.(*net.TCPListener), Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.PID(), gateLn.Addr())
	select {}
}
