//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attackerVariable makes this test binary an attacker: a process of the user's that
// changes what lies at a path all the time, until its stdin ends. Its arguments are the way
// and three paths: the one in question, a decoy and what the decoy leads to.
const attackerVariable = "AISB_E2E_ATTACKER"

// ways are what it does, in pairs: there and back. What was at the path in the
// beginning, the very file, is there between them and in the end.
var ways = map[string]func(path, decoy, target string) (there, back func() error){
	"exchange": func(path, decoy, _ string) (_, _ func() error) {
		exchange := func() error {
			return unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, decoy, unix.RENAME_EXCHANGE)
		}
		return exchange, exchange
	},
	"symlink": func(path, _, target string) (_, _ func() error) {
		return func() error { return errors.Join(os.Rename(path, path+".aside"), place(os.Symlink, target, path)) },
			func() error { return errors.Join(os.Remove(path), os.Rename(path+".aside", path)) }
	},
	"rename": func(path, decoy, _ string) (_, _ func() error) {
		return func() error { return errors.Join(os.Rename(path, path+".aside"), os.Rename(decoy, path)) },
			func() error { return errors.Join(os.Rename(path, decoy), os.Rename(path+".aside", path)) }
	},
	"hard link": func(path, _, target string) (_, _ func() error) {
		return func() error { return errors.Join(os.Rename(path, path+".aside"), place(os.Link, target, path)) },
			func() error { return errors.Join(os.Remove(path), os.Rename(path+".aside", path)) }
	},
	"write": func(path, decoy, _ string) (_, _ func() error) {
		right, err := os.ReadFile(path)
		wrong, err2 := os.ReadFile(decoy)
		if len(right) != len(wrong) { // one of them would leave a rest of the other
			err = errors.Join(err, errors.New("contents of two lengths"))
		}
		f, err3 := os.OpenFile(path, os.O_WRONLY, 0)
		put := func(text []byte) func() error {
			return func() error {
				_, err4 := f.WriteAt(text, 0)
				return errors.Join(err, err2, err3, err4)
			}
		}
		return put(wrong), put(right)
	},
}

// place puts a link where nothing should be. The runtime of containers makes a file there
// when it is told to mount something on it (runtime-spec, config, Mounts).
func place(link func(string, string) error, target, path string) error {
	for {
		err := link(target, path)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		os.Remove(path)
	}
}

// evenly makes two texts of one length, by empty lines.
func evenly(a, b string) (string, string) {
	n := max(len(a), len(b))
	return a + strings.Repeat("\n", n-len(a)), b + strings.Repeat("\n", n-len(b))
}

// attackerMain is the attacker's main: it prints how often it came back.
func attackerMain(args []string) int {
	way := ways[args[0]]
	if len(args) != 4 || way == nil {
		fmt.Fprintf(os.Stderr, "attacker: %q\n", args)
		return 2
	}
	there, back := way(args[1], args[2], args[3])
	var end atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		end.Store(true)
	}()
	n := 0
	for ; !end.Load(); n++ {
		for _, step := range []func() error{there, back} {
			if err := step(); err != nil {
				fmt.Fprintln(os.Stderr, "attacker:", err)
				return 1
			}
			// Each state lasts for as long as a look and a use may be apart, or a moment.
			for wait := time.Now().Add(rand.N(rand.N(time.Millisecond) + 1)); time.Now().Before(wait); {
			}
		}
	}
	fmt.Println(n)
	return 0
}

// attacked starts an attacker, which the returned function stops.
func attacked(t *testing.T, way, path, decoy, target string) (stop func() (times int)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, way, path, decoy, target)
	cmd.Env = []string{attackerVariable + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(agent.uid), Gid: uint32(agent.gid)}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() int {
		t.Helper()
		if stopped {
			return 0
		}
		stopped = true
		in.Close()
		err := cmd.Wait()
		n, bad := strconv.Atoi(strings.TrimSpace(out.String()))
		if err := errors.Join(err, bad); err != nil {
			t.Errorf("the attacker: %v: %s", err, out)
		}
		return n
	}
	t.Cleanup(func() { stop() })
	return stop
}
