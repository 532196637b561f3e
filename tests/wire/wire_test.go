package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

var binary = flag.String("binary", "", "the aisb under test; built from this tree when empty")

// limit bounds each wait for the gate. All is local: it is reached only by a
// gate that hangs.
const limit = 30 * time.Second

// TestWire plays all vectors, each against a gate of its own.
func TestWire(t *testing.T) {
	build(t)
	need.UserNS(t)
	if !inLab(t) {
		return
	}
	l := startLab(t)
	files, err := filepath.Glob("testdata/*.wire")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range vectors {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".wire")+"/"+v.Name, func(t *testing.T) { play(t, l, v) })
		}
	}
}

// built is where build puts the binary; TestMain removes it.
var built string

// build makes sure that there is a binary.
func build(t *testing.T) {
	t.Helper()
	if *binary != "" {
		return
	}
	var err error
	if built, err = os.MkdirTemp("", "aisb-wire-"); err != nil { //nolint:usetesting // for all tests: TestMain removes it
		t.Fatal(err)
	}
	out := filepath.Join(built, "aisb")
	cmd := exec.Command("go", "build", "-o", out, "github.com/aisb-dev/aisb/cmd/aisb")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	*binary = out
}

// gate is a running binary.
type gate struct {
	cmd  *exec.Cmd
	addr string
	out  bytes.Buffer
	errs bytes.Buffer
	read chan struct{}
}

func startGate(t *testing.T, v *Vector, resolver string) *gate {
	t.Helper()
	args := []string{"gate", "--listen", "127.0.0.1:0", "--resolver", resolver}
	for _, r := range v.Allow {
		args = append(args, "--allow", r)
		if r == "*" {
			args = append(args, "--allow-all-names")
		}
	}
	for _, r := range v.Deny {
		args = append(args, "--deny", r)
	}
	g := &gate{cmd: exec.Command(*binary, args...), read: make(chan struct{})}
	g.cmd.Stderr = &g.errs
	g.cmd.Env = []string{}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.cmd.Process.Kill() }) // of a vector that failed half-way
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	var ready struct{ Event, Addr string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil || ready.Event != "listening" {
		g.cmd.Process.Kill()
		g.cmd.Wait()
		t.Fatalf("no ready line: %q, %v, %s", line, err, g.errs.String())
	}
	g.addr = ready.Addr
	go func() { io.Copy(&g.out, r); close(g.read) }()
	return g
}

// stop ends the gate by SIGTERM and returns its log.
func (g *gate) stop(t *testing.T) string {
	t.Helper()
	g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.read:
	case <-time.After(limit):
		g.cmd.Process.Kill()
		<-g.read
		t.Errorf("the gate does not end")
	}
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("the gate ends with %v: %s", err, g.errs.String())
	}
	if s := g.errs.String(); strings.Contains(s, "panic") || strings.Contains(s, "goroutine") {
		t.Errorf("the gate wrote %s", s)
	}
	return g.out.String()
}

// play runs one vector and compares everything with what it says.
func play(t *testing.T, l *lab, v *Vector) {
	zone := fakes.Hosts(v.DNS)
	dns, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dns.Close()
	g := startGate(t, v, dns.Addr.String())
	l.take(t)
	client(t, g.addr, v)
	dials := l.take(t)
	log := g.stop(t)

	var to []string
	for _, d := range dials {
		to = append(to, strings.ReplaceAll(d.To, "::ffff:", ""))
	}
	same(t, "dials", to, v.Dials)
	same(t, "queries", slices.Compact(slices.Sorted(slices.Values(dns.Log.Names()))), v.Queries)
	for _, text := range v.Origin {
		if !slices.ContainsFunc(dials, func(d dial) bool { return strings.Contains(d.Received, text) }) {
			t.Errorf("no origin got %q, of %q", text, dials)
		}
	}
	for _, d := range dials {
		for _, text := range v.Absent {
			if strings.Contains(d.Received, text) {
				t.Errorf("an origin got %q in %q", text, d.Received)
			}
		}
	}
	checkLog(t, log, v.Event)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func checkLog(t *testing.T, log, want string) {
	t.Helper()
	found := want == ""
	for line := range strings.Lines(log) {
		var m struct{ Event, Reason string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("log line %q: %v", line, err)
		}
		found = found || strings.TrimSpace(m.Event+" "+m.Reason) == want
	}
	if !found {
		t.Errorf("no %q in the log:\n%s", want, log)
	}
}

// Each vector says something that its gate could get wrong.
func TestVectors(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.wire")
	seen := map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range vectors {
			if seen[v.Name] || len(v.Steps) < 2 {
				t.Errorf("%s: %q is there twice, or has no answer", name, v.Name)
			}
			seen[v.Name] = true
		}
	}
}
