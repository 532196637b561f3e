// Package confine locks the process of a gate up, so that who finds a fault in how
// it reads hostile bytes gains little: no file but those that it reads again, no
// program, no other process, no service of this machine that listens on a unix
// socket. Connecting to the network stays, since that is the gate's work.
//
// It is for a process that has opened everything and read nothing hostile yet.
// What is open stays usable: descriptors are not looked at again.
package confine

import (
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Needs are what a gate goes on opening.
type Needs struct {
	// Files are read again under their names. Editors and resolvers replace files, so
	// it is the directories that hold them, and the links to them, that stay readable.
	Files []string

	// Dirs stay readable too, where they exist.
	Dirs []string

	// Roots says that certificates will be checked. The host's roots are read at
	// once: crypto/x509 does so a single time anyway, and where they are differs.
	Roots bool

	// Self says that this process reads its own directory in /proc, for metrics.
	Self bool

	// Scratch is a directory that is to be removed with what is in it.
	Scratch string
}

// State says what stands.
type State struct {
	Landlock int      // version of its interface, 0 without it
	Filter   bool     // of system calls
	Lacks    []string // why the others don't stand
}

// String is the state for the log: "landlock-7 seccomp", or "none".
func (s State) String() string {
	var have []string
	if s.Landlock > 0 {
		have = append(have, fmt.Sprintf("landlock-%d", s.Landlock))
	}
	if s.Filter {
		have = append(have, "seccomp")
	}
	if have == nil {
		return None
	}
	return strings.Join(have, " ")
}

// None is the state of a process that is not confined.
const None = "none"

// Apply locks this process up, all of its threads and for good, as far as the kernel
// has what that takes. On an error it may be locked up in part, and has to end.
func Apply(n Needs) (State, error) {
	n.ahead()
	var s State
	// no_new_privs comes with each of the two (landlock(7), seccomp(2) on TSYNC).
	if abi, err := Landlock(); err != nil {
		s.Lacks = append(s.Lacks, err.Error())
	} else if err := n.restrict(); err != nil {
		return s, fmt.Errorf("restrict files by Landlock: %w", err)
	} else if err := errors.Join(filesRestricted(), gainsNothing()); err != nil {
		return s, err
	} else {
		s.Landlock = abi
	}
	if err := canFilter(); err != nil {
		s.Lacks = append(s.Lacks, err.Error())
	} else if err := filterCalls(); err != nil {
		return s, fmt.Errorf("filter system calls: %w", err)
	} else if err := callsFiltered(); err != nil {
		return s, err
	} else {
		s.Filter = true
	}
	return s, nil
}

// ahead reads what the libraries would read later and once.
func (n Needs) ahead() {
	_, _ = time.Now().Zone()
	if n.Roots {
		_, _ = x509.SystemCertPool() // who has none is told so by the first certificate
	}
}

// filesRestricted tries what can't work any more. Success is never inferred from a call
// that said nothing, nor from an error that something else may have: where there is no
// /dev/null, it can't be written to either. It comes before the filter, which refuses the same.
func filesRestricted() error {
	refused := false
	for _, try := range []struct {
		name  string
		flags int
		works string
	}{
		{"/", unix.O_RDONLY | unix.O_DIRECTORY, "a directory can be listed"},
		{"/dev/null", unix.O_WRONLY, "a file can be written to"},
	} {
		fd, err := unix.Open(try.name, try.flags|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
			return fmt.Errorf("restrict files by Landlock: %s all the same", try.works)
		}
		refused = refused || errors.Is(err, unix.EACCES)
	}
	if !refused {
		return errors.New("restrict files by Landlock: whether it does can't be told")
	}
	return nil
}

// callsFiltered does so for the filter. A service manager may refuse unix sockets by the
// same error, but nothing else answers to a call that each kernel has as if there were none.
func callsFiltered() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return errors.New("filter system calls: a unix socket can be made all the same")
	}
	if err := unix.Listen(-1, 0); !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("filter system calls: to listen is answered with %q all the same", err)
	}
	return nil
}

// gainsNothing asks whether no_new_privs is set.
func gainsNothing() error {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 1 {
		return errors.Join(errors.New("set no_new_privs: it is not set all the same"), err)
	}
	return nil
}

// NoCore prevents core files, which would hold keys and what passes through, and
// with them the reading of this process's memory by others of its user.
func NoCore() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if can, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || can != 0 {
		return errors.Join(errors.New("this process can be dumped all the same"), err)
	}
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core.Max == 0 {
		return err // a limit of 0 can't be raised, and being undumpable will do
	}
	// 1, not 0: a core handler in a pipe is skipped only for 1 (core(5)).
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		return err
	}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core.Max != 1 {
		return errors.Join(errors.New("the limit of core files is not taken"), err)
	}
	return nil
}

// noNewPrivs sets no_new_privs for the calling thread, to which the goroutine stays
// bound until the function that is returned is called.
func noNewPrivs() (release func(), err error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := gainsNothing(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}
