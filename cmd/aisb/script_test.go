package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/doctor"
)

// TestMain lets the scripts call the real command line as aisb.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		doctor.Name:    func() { os.Exit(doctor.Main(os.Args[1:])) },
		supervisorName: func() { os.Exit(supervise(os.Args[1:])) },
		"aisb":         func() { os.Exit(cli(os.Args[1:], &ui{Out: os.Stdout, Err: os.Stderr})) },
	})
}

// TestScript runs the scripts of testdata/script: what the command line says and
// returns, for each message that a user can meet before a container starts.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := env.WorkDir + "/home"
			if err := os.MkdirAll(home+"/project", 0o755); err != nil {
				return err
			}
			runtime := env.WorkDir + "/runtime"
			if err := os.Mkdir(runtime, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			env.Setenv("AISB_BASE_IMAGE", "")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
			"socket": socket,
			"older":  older,
			"listen": listen,
		},
	})
}

// older makes a file an hour older than it is: older PATH. Two that were written
// right after another can have one time.
func older(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: older PATH")
	}
	name := ts.MkAbs(args[0])
	info, err := os.Stat(name)
	ts.Check(err)
	when := info.ModTime().Add(-time.Hour)
	ts.Check(os.Chtimes(name, when, when))
}

// socket makes a unix socket that nobody listens on any more: socket PATH
func socket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: socket PATH")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	ts.Check(err)
	defer unix.Close(fd)
	dir, err := os.Open(filepath.Dir(args[0])) // an address is short
	ts.Check(err)
	defer dir.Close()
	ts.Check(unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(args[0]))}))
}

// listen takes a port of 127.0.0.1 until the script's end: listen VARIABLE
func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen VARIABLE")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { ln.Close() })
	ts.Setenv(args[0], fmt.Sprint(ln.Addr().(*net.TCPAddr).Port))
}

// status runs a command and checks its exit status: status N COMMAND ARG...
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	want := "exit status " + args[0]
	if args[0] == "0" {
		want = "0"
	}
	if got != want {
		ts.Fatalf("%q: got %s, want %s", args[1:], got, want)
	}
}
