package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

// client is one row of the matrix.
type client struct {
	name    string
	needs   []string // programs
	version string   // a command that prints it
	files   string   // a directory whose files it gets
	env     []string // what it needs beside the sandbox's
	does    string   // what allowed proves, for the table
	allowed func(t *testing.T, b *bench)
	refused []refusal
}

// refusal is a command that must not get where it wants.
type refusal struct {
	command string
	host    string // that the gate refuses
	reason  string // "" is not-listed, and the host unlisted
	// shown is what its user sees of the reason: a text that must be there in
	// every version. "" is for a client that shows none.
	shown string
	// ends says that the client takes the answer for a success.
	ends bool
}

// bench is where one client works.
type bench struct {
	*lab
	dir string
	env []string
}

// sh runs a command that must succeed, and returns what it wrote to stdout.
func (b *bench) sh(t *testing.T, command string) string {
	t.Helper()
	r := b.run(t, b.dir, command, false, b.env...)
	if r.exit != 0 {
		t.Fatalf("%s: exit %d: %s%s", command, r.exit, r.out, r.errs)
	}
	return r.out
}

// read returns a file that a client made.
func (b *bench) read(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %q, %v", pattern, found, err)
	}
	text, err := os.ReadFile(found[0])
	check(t, err)
	return string(text)
}

// same compares bytes without printing a megabyte of them.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d bytes, %.80q; want %d, %.80q", what, len(got), got, len(want), want)
	}
}

func TestMain(m *testing.M) {
	if os.Args[0] == grpcName {
		os.Exit(grpcClient(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestClients(t *testing.T) {
	need.Root(t) // public addresses, and mounts: an ordinary user leaves this to sudo make test
	for _, tool := range []string{"ip", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Missing(t, "root", err)
		}
	}
	l := startLab(t)
	for _, c := range matrix {
		t.Run(c.name, func(t *testing.T) { l.play(t, c) })
	}
	if names := slices.Compact(slices.Sorted(slices.Values(l.log.Names()))); slices.Contains(names, unlisted) {
		t.Errorf("the name server was asked for %s", unlisted)
	}
	for _, e := range l.log.Events("http", "https") {
		if strings.Contains(e.Host+e.SNI, unlisted) {
			t.Errorf("a request reached %s: %+v", unlisted, e)
		}
	}
}

// play runs one row.
func (l *lab) play(t *testing.T, c client) {
	b := &bench{lab: l, dir: t.TempDir(), env: c.env}
	for _, tool := range c.needs {
		if r := l.run(t, b.dir, "command -v "+tool, false); r.exit != 0 {
			need.Missing(t, "root", fmt.Errorf("no %s: tests/setup gets it", tool))
		}
	}
	if c.files != "" {
		check(t, os.CopyFS(b.dir, os.DirFS(c.files)))
	}
	g := &golden{version: "grpc " + grpc.Version} // the one client that is linked
	if c.version != "" {
		g.version = version(b.sh(t, c.version))
	}
	t.Logf("%s: %s", c.name, g.version)
	t.Run("allowed", func(t *testing.T) { c.allowed(t, b) })
	for _, r := range c.refused {
		t.Run("refused", func(t *testing.T) { l.refuse(t, b, r, g) })
	}
	g.compare(t, c.name)
}

// version is the first line, without what a distribution adds.
func version(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(regexp.MustCompile(`\s*[(\[].*|,.*|\s(x86_64|libcurl|built|from|linux/).*`).ReplaceAllString(line, ""))
}

// refuse runs a command that the gate refuses, and holds that nothing left.
func (l *lab) refuse(t *testing.T, b *bench, r refusal, g *golden) {
	t.Helper()
	if r.reason == "" {
		r.host, r.reason = unlisted, "not-listed"
	}
	if !l.log.Quiet(10 * time.Second) {
		t.Errorf("%s: the world is busy with an earlier request still", r.command)
	}
	before, events := len(l.gate.Lines()), len(l.log.Events())
	begin := time.Now()
	got := l.run(t, b.dir, r.command, true, b.env...)
	t.Logf("%s: exit %d after %v", r.command, got.exit, time.Since(begin).Round(time.Millisecond))
	if (got.exit == 0) != r.ends {
		t.Errorf("%s: exit %d: %s", r.command, got.exit, got.out)
	}
	out := normal(got.out, b.dir)
	if !strings.Contains(out, r.shown) {
		t.Errorf("%s: no %q in %s", r.command, r.shown, out)
	}
	denied := func(f fakes.Line) bool { return f.Event == "deny" && f.Host == r.host && f.Reason == r.reason }
	if _, ok := l.gate.Wait(10*time.Second, before, denied); !ok {
		t.Errorf("%s: the gate has no deny %s %s: %+v", r.command, r.host, r.reason, l.gate.Lines()[before:])
	}
	for _, e := range l.log.Events()[events:] {
		if e.Name == unlisted || r.host == unlisted && e.Fake != "tcp" {
			t.Errorf("%s: the world saw %+v", r.command, e)
		}
	}
	g.add(r.command, out, got.exit)
}
