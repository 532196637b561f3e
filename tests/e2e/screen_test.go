//go:build e2e

package e2e

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// seat is a terminal that outlives what runs on it, as the user's does.
type seat struct {
	t             *testing.T
	master, slave *os.File
	screen        *output
	cmd           *exec.Cmd
	before        string
}

// newSeat is one whose output others get too.
func newSeat(t *testing.T, others ...io.Writer) *seat {
	t.Helper()
	s := &seat{t: t, screen: &output{}}
	s.master, s.slave = openTerminal(t)
	t.Cleanup(func() {
		s.master.Close()
		s.slave.Close()
	})
	setSize(t, s.master, 24, 80)
	utf8 := exec.Command("stty", "iutf8") // as terminals say it
	utf8.Stdin = s.slave
	if err := utf8.Run(); err != nil {
		t.Fatal(err)
	}
	s.before = stty(t, s.slave)
	go io.Copy(io.MultiWriter(append(others, s.screen)...), s.master) // ends with the test's closing it
	return s
}

// start starts aisb, with stdin somewhere else if that is given.
func (s *seat) start(c call, stdin io.Reader, args ...string) {
	s.t.Helper()
	s.cmd = c.command(context.Background(), args...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.slave, s.slave, s.slave
	if stdin != nil {
		s.cmd.Stdin = stdin
	} else {
		s.cmd.SysProcAttr.Setctty = true
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.cmd.Process.Kill() }) // nothing, if it has ended
}

func (s *seat) waitScreen(text string) {
	s.t.Helper()
	waitUntil(s.t, runTimeout, text, func() bool { return strings.Contains(s.screen.String(), text) })
}

// end waits for aisb, and returns all that it has written.
func (s *seat) end(status int) string {
	s.t.Helper()
	timer := time.AfterFunc(runTimeout, func() { s.cmd.Process.Kill() })
	s.cmd.Wait() // the status is in ProcessState
	timer.Stop()
	io.WriteString(s.slave, "<the end>")
	s.waitScreen("<the end>")
	if got := s.cmd.ProcessState.ExitCode(); got != status {
		s.t.Errorf("status %d, want %d:\n%q", got, status, s.screen)
	}
	return strings.TrimSuffix(s.screen.String(), "<the end>")
}

// wantClean fails the test if a shell would find the terminal other than it was.
func (s *seat) wantClean() {
	s.t.Helper()
	if after := stty(s.t, s.slave); after != s.before {
		s.t.Errorf("the terminal was %s and is %s", s.before, after)
	}
	// As whole lines, the kernel would say nothing of half of one.
	cmd := exec.Command("stty", "raw")
	cmd.Stdin = s.slave
	if err := cmd.Run(); err != nil {
		s.t.Fatal(err)
	}
	if n, err := unix.IoctlGetInt(int(s.slave.Fd()), unix.TIOCINQ); err != nil || n != 0 {
		s.t.Errorf("%d bytes are typed into the shell, %v", n, err)
	}
}

// evil are sequences that no terminal may get, between words that it must.
var evil = []string{
	"\x1b]52;c;ZXZpbA==\a", "\x1b]52;c;?\a", "\x9d52;c;eA==\x9c", "\xc2\x9d52;c;eA==\xc2\x9c", "\x1b]1337;File=name=eA==:eA==\a",
	"\x1b]5113;ac=send\x1b\\", "\x1b_Gt=f,a=T;L2V0Yw==\x1b\\", "\x1b]50;#1\a", "\x1b]9;evil\a", "\x1b]777;notify;evil;evil\a",
	"\x1b]7;file:///evil\a", "\x1b]8;;file:///evil\a", "\x1b[21t", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bPtmux;\x1b\x1b]52;c;eA==\a\x1b\\",
	"\x1b[1;1;1;1;9;9*y", "\x1bP0;1|17/41\x1b\\", "\x1b[5i", "\x05", "\x1b[3;0;0t", "\x1b[?46h", "\x1b%@", "\x1b]0;\x1b]52;c;eA==\a",
}

// TestHostileOutput: by none of the ways to the user's terminal does any of it
// arrive.
func TestHostileOutput(t *testing.T) {
	dir := project(t)
	write(t, dir, "evil", "before\n"+strings.Join(evil, "\nbetween\n")+"\nafter\n\x1b]52;c;") // the last one has no end
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	check := func(t *testing.T, shown string) {
		t.Helper()
		for _, e := range evil {
			if strings.Contains(shown, e) {
				t.Errorf("%q arrives", e)
			}
		}
		for _, introducer := range []string{"\x1b]", "\x1bP", "\x1b_", "\xc2\x9d", "\x9d", "\x1b[5i", "\x05"} {
			if strings.Contains(shown, introducer) {
				t.Errorf("%q arrives in %q", introducer, shown)
			}
		}
		if n := strings.Count(shown, "between"); n != len(evil)-1 {
			t.Errorf("%d of %d lines between arrive: %q", n, len(evil)-1, shown)
		}
		wantIn(t, "screen", shown, "before", "after", "kept from your terminal: ", "use of the clipboard (")
	}
	t.Run("run", func(t *testing.T) {
		s := newSeat(t)
		s.start(call{dir: dir}, nil, runArgs(allowed, "cat", "evil")...)
		check(t, s.end(0))
		s.wantClean()
	})
	t.Run("run without its input", func(t *testing.T) {
		s := newSeat(t)
		s.start(call{dir: dir}, null, runArgs(allowed, sh("cat evil; printf '\\033[c\\033[?1000h'")...)...)
		shown := s.end(0)
		check(t, shown)
		wantNot(t, "screen", shown, "\x1b[c", "\x1b[?1000h") // nobody would read what they cause
	})
	t.Run("run, standard error", func(t *testing.T) {
		s := newSeat(t)
		s.start(call{dir: dir}, null, runArgs(allowed, sh("cat evil >&2")...)...)
		check(t, s.end(0))
	})
	t.Run("exec", func(t *testing.T) {
		w := waiting(t)
		write(t, w.c.dir, "evil", "before\n"+strings.Join(evil, "\nbetween\n")+"\nafter\n")
		s := newSeat(t)
		s.start(w.c, nil, "exec", w.name, "--", "cat", "evil")
		check(t, s.end(0))
		s.wantClean()
		w.ends(t)
	})
	t.Run("raw", func(t *testing.T) {
		s := newSeat(t)
		s.start(call{dir: dir}, nil, runArgs(append([]string{"--tty-raw"}, allowed...), "cat", "evil")...)
		shown := s.end(0)
		wantIn(t, "screen", shown, "warning: --tty-raw: ")
		wantIn(t, "screen", strings.ReplaceAll(shown, "\r\n", "\n"), strings.Join(evil, "\nbetween\n"))
	})
	t.Run("no terminal", func(t *testing.T) {
		o := call{dir: dir}.aisb(t, allowed, "cat", "evil")
		o.wantStatus(t, 0)
		wantIn(t, "output", o.stdout, strings.Join(evil, "\nbetween\n"))
	})
}

// question is what answers has an answer to.
var question = regexp.MustCompile(`\x1b\[(?:c|6n)`)

// answers plays a terminal's part, late: to each question there is an answer, in
// their order.
func (s *seat) answers(t *testing.T) {
	go func() {
		for done := 0; ; {
			text := s.screen.String()[done:]
			if q := question.FindStringIndex(text); q != nil {
				answer := "\x1b[?62;22c"
				if text[q[0]:q[1]] != "\x1b[c" {
					answer = "\x1b[1;1R\x1b[<35;1;1M" // the mouse moves too
				}
				io.WriteString(s.master, answer)
				done += q[1]
			}
			select {
			case <-t.Context().Done():
				return
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
}

// TestTerminalIsLeftClean: whatever ends a command in the middle of its drawing,
// the modes are put back, and no answer is typed into the shell.
func TestTerminalIsLeftClean(t *testing.T) {
	const draw = `printf '\033[?1049h\033[?25l\033[?2004h\033[?1003;1006h\033[>1u\033[2;9r\033[31m\033]0;title\007ready\033[c\033[6n\033]52;c;'; `
	for name, c := range map[string]struct {
		then   string
		status int
		end    func(s *seat, container string)
	}{
		"exit":     {"exit 3", 3, nil},
		"crash":    {"kill -SEGV $$", 139, nil},
		"killed":   {"kill -KILL $$", 137, nil},
		"sigterm":  {"sleep 1000", 143, func(s *seat, _ string) { s.cmd.Process.Signal(syscall.SIGTERM) }},
		"podman":   {"sleep 1000", 137, func(s *seat, name string) { podman(s.t, "kill", "--signal=KILL", name) }},
		"ctrl-c":   {"sleep 1000", 130, func(s *seat, _ string) { io.WriteString(s.master, "\x03") }},
		"children": {"sleep 1000 & exit 4", 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeat(t)
			s.answers(t)
			s.start(call{dir: project(t)}, nil, runArgs(allowed, sh(draw+c.then)...)...)
			s.waitScreen("ready")
			if c.end != nil {
				c.end(s, containerName(t))
			}
			shown := s.end(c.status)
			wantIn(t, "screen", shown, "\x1b[<1u", "\x1b[?1049l", "\x1b[r", "\x1b[?25h", "\x1b[?1003l\x1b[?1006l\x1b[?2004l", "\x1b[22;0t\x1b]0;title\a", "\x1b[23;0t", "\x1b[0m")
			wantNot(t, "screen", shown, "\x1b]52")
			s.wantClean()
		})
	}
}
