package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/confine"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// feigning starts a command where some system calls are answered and not made.
func feigning(calls ...fakes.Feigned) func(*exec.Cmd) error {
	return func(cmd *exec.Cmd) (err error) {
		fakes.OnThread(func() {
			if err = fakes.Feign(calls...); err == nil {
				err = cmd.Start()
			}
		})
		return err
	}
}

// lacking starts a command where some system calls answer by an error.
func lacking(errno syscall.Errno, calls ...uint32) func(*exec.Cmd) error {
	var list []fakes.Feigned
	for _, nr := range calls {
		list = append(list, fakes.Feigned{Call: nr, Errno: errno})
	}
	return feigning(list...)
}

// unstarted runs a gate that is not to come to serve, and returns what it wrote.
func unstarted(t *testing.T, start func(*exec.Cmd) error, args ...string) string {
	t.Helper()
	var log, words strings.Builder
	cmd := exec.Command(*binary, append([]string{"gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test"}, args...)...)
	cmd.Stdout, cmd.Stderr = &log, &words
	cmd.WaitDelay = time.Second
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() }) // one that serves
	defer kill.Stop()
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || log.Len() > 0 || !strings.Contains(words.String(), "aisb: error: lock the gate up: ") {
		t.Errorf("%v: %q, its log is %q", cmd.ProcessState, words.String(), log.String())
	}
	return words.String()
}

// TestConfinedByLess: where the kernel lacks one of the two, or who starts the gate forbids
// it, the gate serves with a warning, and with --confine require doesn't start.
func TestConfinedByLess(t *testing.T) {
	build(t)
	landlock := []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}
	for name, c := range map[string]struct {
		start    func(*exec.Cmd) error
		confined string
		why      string
	}{
		"an old kernel":     {lacking(unix.ENOSYS, landlock...), `^seccomp$`, "this kernel has no Landlock"},
		"booted without":    {lacking(unix.EOPNOTSUPP, landlock...), `^seccomp$`, "this kernel was booted without its Landlock"},
		"a strict manager":  {lacking(unix.EPERM, landlock...), `^seccomp$`, "ask for Landlock: operation not permitted"},
		"without filters":   {lacking(unix.ENOSYS, unix.SYS_SECCOMP), `^landlock-\d+$`, "this kernel has no filter of system calls"},
		"neither of them":   {lacking(unix.ENOSYS, append(landlock, unix.SYS_SECCOMP)...), `^none$`, "this kernel has no filter of system calls"},
		"filters forbidden": {lacking(unix.EPERM, unix.SYS_SECCOMP), `^landlock-\d+$`, "ask for filters of system calls: operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test")
			s := startWith(t, cmd, c.start)
			if says, _ := s.wait("listening", "")["confined"].(string); !matches(c.confined, says) {
				t.Errorf("the log says %q", says)
			}
			s.waitErr("warning: the gate is less locked up than it could be: " + c.why)
			if words := unstarted(t, c.start, "--confine", "require"); !strings.Contains(words, c.why) {
				t.Errorf("--confine require: %q", words)
			}
		})
	}
}

// TestConfinedInVain: what is there, says that it stands, and refuses nothing, ends the gate
// before it serves: it is looked at, each by itself.
func TestConfinedInVain(t *testing.T) {
	build(t)
	first := func(value uint32) *fakes.Argument { return &fakes.Argument{Value: value} }
	filter := fakes.Feigned{Call: unix.SYS_SECCOMP}
	privs := fakes.Feigned{Call: unix.SYS_PRCTL, Only: first(unix.PR_SET_NO_NEW_PRIVS)}
	root := os.Getuid() == 0 // others can't feign without no_new_privs
	_, err := confine.Landlock()
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		there bool // there is something to feign
		calls []fakes.Feigned
		why   string
	}{
		"Landlock": {err == nil, []fakes.Feigned{{Call: unix.SYS_LANDLOCK_RESTRICT_SELF}},
			"restrict files by Landlock: a directory can be listed all the same"},
		"the filter": {true, []fakes.Feigned{filter}, "filter system calls: a unix socket can be made all the same"},
		"the filter, where somebody refuses unix sockets": {true,
			[]fakes.Feigned{filter, {Call: unix.SYS_SOCKET, Errno: unix.EAFNOSUPPORT, Only: first(unix.AF_UNIX)}},
			`filter system calls: to listen is answered with "bad file descriptor" all the same`},
		"no_new_privs": {root && err == nil, []fakes.Feigned{privs}, "set no_new_privs: it is not set all the same"},
		"no_new_privs, without Landlock": {root, []fakes.Feigned{privs, {Call: unix.SYS_LANDLOCK_CREATE_RULESET, Errno: unix.ENOSYS}},
			"set no_new_privs: it is not set all the same"},
		"what forbids dumps": {true, []fakes.Feigned{{Call: unix.SYS_PRCTL, Only: first(unix.PR_SET_DUMPABLE)}},
			"this process can be dumped all the same"},
		"the limit of core files": {core.Max > 1, []fakes.Feigned{{Call: unix.SYS_PRLIMIT64, Only: &fakes.Argument{Number: 2, Other: true}}},
			"the limit of core files is not taken"},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.there {
				t.Log("there is nothing to feign here")
				return
			}
			if words := unstarted(t, feigning(c.calls...)); !strings.Contains(words, c.why) {
				t.Errorf("it wrote %q", words)
			}
		})
	}
}

// TestConfinedInherits: what whoever has called the gate had open isn't open in it.
func TestConfinedInherits(t *testing.T) {
	build(t)
	left, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	for mode, want := range map[string]bool{"auto": false, "off": true} {
		cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test", "--confine", mode)
		cmd.ExtraFiles = []*os.File{left}
		s := startCommand(t, cmd)
		files, err := filepath.Glob("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/fd/*")
		if err != nil || len(files) == 0 {
			t.Fatalf("no descriptors: %v", err)
		}
		has := false
		for _, name := range files {
			to, err := os.Readlink(name)
			has = has || err == nil && to == "/etc/passwd"
		}
		if has != want {
			t.Errorf("%s: has it: %v", mode, has)
		}
	}
}
