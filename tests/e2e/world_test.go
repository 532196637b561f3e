//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/aisb-dev/aisb/sandbox/briefing"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// Addresses of the fake internet. It is a network namespace of its own, behind
// a veth pair, so the gate's host knows none of them as its own.
const (
	hostAddr   = "10.77.0.1"
	hostAddr6  = "fd77:77::1"
	hostPublic = "93.184.215.200" // the host's too
	routerAddr = "10.77.0.2"      // also the name server
	router6    = "fd77:77::2"
	originAddr = "93.184.215.14"
	evilAddr   = "93.184.215.66"
	evilAddr6  = "2606:7700::66"
	sixAddr6   = "2606:7700::14"
	modelAddr  = "93.184.215.20"
	gitAddr    = "93.184.215.22" // of the git host, see git_test.go
	openAIAddr = "93.184.215.21"
	geminiAddr = "93.184.215.23"
)

// theInternet is who lives there. The model's answers are those of
// harness_test.go.
func theInternet(dir string) fakes.World {
	w := fakes.World{
		CA:  filepath.Join(dir, "ca.pem"),
		DNS: []string{routerAddr + ":53", "[" + router6 + "]:53"},
		Hosts: map[string][]string{
			"allowed.test": {originAddr}, "also.allowed.test": {originAddr},
			"git.test": {gitAddr}, "evil.test": {evilAddr}, "api.anthropic.com": {modelAddr}, "platform.claude.com": {modelAddr},
			"api.openai.com": {openAIAddr}, "generativelanguage.googleapis.com": {geminiAddr},
			"inside.test": {hostAddr}, "own.test": {hostPublic}, "loop.test": {"127.0.0.1"},
			"mixed.test": {originAddr, "10.1.2.3"}, "six.test": {sixAddr6},
		},
		Origins: []fakes.OriginSpec{
			{Listen: originAddr + ":80", Kind: "http"},
			{Listen: originAddr + ":443", Kind: "https"},
			{Listen: originAddr + ":8080", Kind: "http"},
			{Listen: evilAddr + ":80", Kind: "http"},
			{Listen: evilAddr + ":443", Kind: "https"},
			{Listen: evilAddr + ":8080", Kind: "echo"},
			{Listen: "[" + evilAddr6 + "]:80", Kind: "http"},
			{Listen: "[" + sixAddr6 + "]:80", Kind: "http"},
			{Listen: "[" + sixAddr6 + "]:443", Kind: "https"},
			{Listen: modelAddr + ":443", Kind: "model"},
			{Listen: gitAddr + ":443", Kind: "git", Text: gitDir(dir)},
			{Listen: gitAddr + ":22", Kind: "program", Text: sshServer(dir)},
			{Listen: openAIAddr + ":443", Kind: "openai"},
			{Listen: geminiAddr + ":443", Kind: "gemini"},
		},
		Phrases: []string{briefing.Final},
		Script:  modelScript,
		Key:     modelKey,
	}
	for i := range 20 { // of TestTwentyAtOnce
		w.Hosts[fmt.Sprintf("n%d.test", i)] = []string{originAddr}
	}
	return w
}

// world is the running internet, with all that reached it so far.
type world struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser // its end is the end of the world
	ca    string         // file with the authority's certificate

	mu     sync.Mutex
	events []fakes.Event
}

// enterNamespaces runs this test binary once more in network and mount
// namespaces of its own: nothing of the machine's network is there.
func enterNamespaces() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "AISB_E2E_INSIDE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// startWorld starts the fakes in a namespace of their own and joins it with
// this one.
func startWorld(serve, dir string) (*world, error) {
	spec := theInternet(dir)
	w := &world{ca: spec.CA}
	w.cmd = exec.Command(serve, "-lifeline")
	// No Pdeathsig: it would follow the end of this thread, not of the process.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := connect(w.cmd.Process.Pid); err != nil {
		return nil, err
	}
	// It listens when it has read this, and so not before its addresses exist.
	if err := json.NewEncoder(w.stdin).Encode(spec); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for ready := 0; ready < len(spec.DNS)+len(spec.Origins); {
		if !lines.Scan() {
			return nil, fmt.Errorf("the fakes ended before they were ready: %v", lines.Err())
		}
		var e fakes.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.Fake == "ready" {
			ready++
		}
	}
	go w.collect(lines)
	return w, nil
}

// collect ends with the fakes.
func (w *world) collect(lines *bufio.Scanner) {
	for lines.Scan() {
		var e fakes.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
		}
	}
}

func (w *world) stop() {
	w.stdin.Close()
	w.cmd.Wait()
}

// connect joins this namespace with that of process pid, the internet.
func connect(pid int) error {
	in := fmt.Sprintf("nsenter -t %d -n ", pid)
	script := []string{
		"ip link set lo up",
		fmt.Sprintf("ip link add up0 type veth peer name down0 netns %d", pid),
		"ip addr add " + hostAddr + "/24 dev up0",
		"ip -6 addr add " + hostAddr6 + "/64 dev up0 nodad",
		"ip addr add " + hostPublic + "/32 dev up0",
		"ip link set up0 up",
		in + "ip link set lo up",
		in + "ip addr add " + routerAddr + "/24 dev down0",
		in + "ip -6 addr add " + router6 + "/64 dev down0 nodad",
		in + "ip link set down0 up",
		"ip route add default via " + routerAddr,
		"ip -6 route add default via " + router6,
		in + "ip -6 addr add " + evilAddr6 + "/128 dev lo nodad",
		in + "ip -6 addr add " + sixAddr6 + "/128 dev lo nodad",
	}
	for _, addr := range []string{originAddr, evilAddr, modelAddr, gitAddr, openAIAddr, geminiAddr} {
		script = append(script, in+"ip addr add "+addr+"/32 dev lo")
	}
	out, err := exec.Command("/bin/sh", "-ec", strings.Join(script, "\n")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("join namespaces: %w: %s", err, out)
	}
	return nil
}

// mark is a moment; since returns what came after it. An event is noted when what it is
// about has ended, and told by another process, so that one that has come before may
// be told after.
type mark struct {
	told int // events
	at   time.Time
}

func (w *world) mark() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return mark{len(w.events), time.Now()}
}

// since returns what reached the internet after mark, of some kinds or all.
// Whatever was on its way has arrived then: a query of this call's own has.
func (w *world) since(t *testing.T, mark mark, kinds ...string) []fakes.Event {
	t.Helper()
	settled := fmt.Sprintf("settle-%d.%d.test", mark.told, time.Now().UnixNano())
	query := new(dns.Msg).SetQuestion(settled+".", dns.TypeA)
	err := errors.New("nobody has asked it")
	for tries := 0; err != nil; tries++ { // a datagram may be lost
		if tries == 3 {
			t.Fatalf("the fake internet doesn't answer: %v", err)
		}
		_, _, err = (&dns.Client{Timeout: 5 * time.Second}).Exchange(query, routerAddr+":53")
	}
	w.waitFor(t, mark, "dns", func(e fakes.Event) bool { return e.Name == settled })
	return slices.DeleteFunc(w.after(mark, kinds...), func(e fakes.Event) bool {
		return strings.HasPrefix(e.Name, "settle-")
	})
}

func (w *world) after(mark mark, kinds ...string) []fakes.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []fakes.Event
	for _, e := range w.events[mark.told:] {
		if !e.Began.Before(mark.at) && (len(kinds) == 0 || slices.Contains(kinds, e.Fake)) {
			out = append(out, e)
		}
	}
	return out
}

// wantSilence fails the test if anything reached the internet after mark.
func (w *world) wantSilence(t *testing.T, mark mark) {
	t.Helper()
	for _, e := range w.since(t, mark) {
		t.Errorf("reached the internet: %+v", e)
	}
}

// waitFor waits until an event of that kind after mark satisfies want.
func (w *world) waitFor(t *testing.T, mark mark, kind string, want func(fakes.Event) bool) fakes.Event {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		for _, e := range w.after(mark, kind) {
			if want(e) {
				return e
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no such %s event reached the internet: %+v", kind, w.after(mark, kind))
	return fakes.Event{}
}
