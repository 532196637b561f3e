package sandbox

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// TestExecGetsNoSecret: of what the user has named for the run nothing comes to
// another command unless it is named again; all else does.
func TestExecGetsNoSecret(t *testing.T) {
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Net: NetAllow, Backend: Inner, Workdir: "/project/sub", Argv: []string{"x"},
		Env:   []environ.Var{{Name: "PATH", Value: []byte("/bin")}, {Name: "TERM", Value: []byte("dumb")}},
		Named: []environ.Var{{Name: "API_KEY", Value: []byte("s3cret")}, {Name: "http_proxy", Value: []byte("http://mine/")}},
	}
	at := endpoints{gate: netip.MustParseAddrPort("127.0.0.1:3128")}
	cfg, err := spec.handshake(spec.container("b", conf, at), at)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Join(cfg.Env, []byte("\n"))
	for _, want := range []string{"API_KEY=s3cret", "http_proxy=http://mine/"} {
		if !bytes.Contains(first, []byte(want)) {
			t.Errorf("the first command lacks %q:\n%s", want, first)
		}
	}
	s := &Session{spec: spec, proxy: spec.proxy(at)}
	x := handshake.Exec{Env: [][]byte{[]byte("TERM=xterm"), []byte("OTHER=a=\xff")}}
	if err := s.completeExec(&x); err != nil {
		t.Fatal(err)
	}
	env := bytes.Join(append(x.Env, nil), []byte("\n"))
	for want, has := range map[string]bool{
		"PATH=/bin\n": true, "TERM=xterm\n": true, "OTHER=a=\xff\n": true, "http_proxy=http://127.0.0.1:3128\n": true,
		"TERM=dumb": false, "API_KEY": false, "s3cret": false, "mine": false,
	} {
		if bytes.Contains(env, []byte(want)) != has {
			t.Errorf("%q is there or not as it should be:\n%s", want, env)
		}
	}
	for dir, want := range map[string]string{"": "/project/sub", "a/b": "/project/a/b", "/tmp": "/tmp", "../x": "/x"} {
		x := handshake.Exec{Dir: handshake.Bytes(dir)}
		if err := s.completeExec(&x); err != nil || string(x.Dir) != want {
			t.Errorf("directory %q: %q, %v, want %q", dir, x.Dir, err, want)
		}
	}
	for _, kv := range []string{"", "=x", "no value\x00", "A=" + string(make([]byte, 1))} {
		x := handshake.Exec{Env: [][]byte{[]byte(kv)}}
		if _, ok := errors.AsType[*control.Error](s.completeExec(&x)); !ok {
			t.Errorf("variable %q was taken", kv)
		}
	}
}

// TestExecTurn: of more commands at once than pid 1 is asked for each waits for its turn, but
// for no sandbox that ends.
func TestExecTurn(t *testing.T) {
	s := &Session{asked: make(chan struct{}, 2), cut: make(chan struct{})}
	got := make(chan error)
	for range 5 {
		go func() { got <- s.turn(t.Context()) }()
	}
	for n := range 5 {
		if err := <-got; err != nil {
			t.Errorf("number %d: %v", n, err)
		}
		if n < 3 {
			<-s.asked // it has been answered
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.turn(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("whose client is gone: %v", err)
	}
	close(s.cut)
	if err := s.turn(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("as the sandbox ends: %v", err)
	}
}

// TestPruneDead removes what is left of runs whose aisb was killed, and nothing
// of those that live or are about to.
func TestPruneDead(t *testing.T) {
	p := Paths{Runtime: t.TempDir(), State: t.TempDir()}
	now := time.Now()
	make1 := func(name string) *control.Server {
		t.Helper()
		s, err := control.Listen(filepath.Join(p.Runtime, name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, name := range []string{"dead", "dead-and-held", "new"} {
		make1(name).Close()
	}
	alive := make1("alive")
	defer alive.Close()
	alive.Serve(control.Handler{Info: func() control.Info { return control.Info{State: control.Running} }})
	d, err := p.MakeRunDirs("dead-and-held")
	if err != nil {
		t.Fatal(err)
	}
	defer d.held.Close()
	old := now.Add(-time.Hour)
	for _, name := range []string{"dead", "dead-and-held", "alive"} {
		if err := os.Chtimes(filepath.Join(p.Runtime, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.pruneDead(now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"dead": false, "dead-and-held": true, "new": true, "alive": true} {
		if _, err := os.Stat(filepath.Join(p.Runtime, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
