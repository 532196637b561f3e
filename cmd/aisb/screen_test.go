package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/terminal"
)

// openPty opens both sides of a terminal, the master so that a read ends when it
// is closed.
func openPty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	blocking, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		_, err = term.MakeRaw(int(slave.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "master")
	t.Cleanup(func() {
		master.Close()
		slave.Close()
	})
	return master, slave
}

// here is a command whose terminal is the test's.
type here struct {
	stdio sandbox.Stdio
}

func (h here) Stdio() sandbox.Stdio          { return h.stdio }
func (h here) Signal(_ syscall.Signal) error { return nil }
func (h here) Kill()                         {}
func (h here) Killed() <-chan struct{}       { return nil }

// seat is a terminal and who sits at it, in front of a relay.
type seat struct {
	t       *testing.T
	tty     *os.File // what aisb has of it
	master  *os.File
	command *os.File // the terminal of the command, from inside
	relay   *relay
	said    bytes.Buffer // by aisb

	mu     sync.Mutex
	screen strings.Builder
	shown  chan struct{} // something was
}

func atTerminal(t *testing.T, tty ttyOptions) *seat {
	t.Helper()
	x := &seat{t: t, shown: make(chan struct{}, 1)}
	x.master, x.tty = openPty(t)
	inner, command := openPty(t)
	x.command = command
	x.relay = &relay{
		remote: here{sandbox.Stdio{PTY: inner}}, ui: &ui{Out: io.Discard, Err: &x.said}, tty: tty,
		stdin: x.tty, stdout: x.tty, stderr: x.tty,
		restore: func() {}, signals: make(chan os.Signal, 1), done: make(chan struct{}), drained: make(chan struct{}),
		settles: time.Minute, // whoever sits here answers as fast as the machine lets him
	}
	if err := x.relay.copyAll(); err != nil {
		t.Fatal(err)
	}
	go func() {
		x.relay.output.Wait()
		close(x.relay.drained)
	}()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := x.master.Read(buf)
			x.mu.Lock()
			x.screen.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.shown <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return x
}

func (x *seat) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

// waits until text was shown n times.
func (x *seat) waits(text string, n int) {
	x.t.Helper()
	for strings.Count(x.text(), text) < n {
		select {
		case <-x.shown:
		case <-time.After(10 * time.Second):
			x.t.Fatalf("%q was not shown %d times: %q", text, n, x.text())
		}
	}
}

func (x *seat) types(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, text); err != nil {
		x.t.Fatal(err)
	}
}

// reads returns what the next program at the user's terminal would read.
func (x *seat) reads(n int) string {
	x.t.Helper()
	buf := make([]byte, 100)
	fds := []unix.PollFd{{Fd: int32(x.tty.Fd()), Events: unix.POLLIN}}
	got := 0
	for got < n {
		if ready, err := unix.Poll(fds, 10_000); ready != 1 || err != nil {
			x.t.Fatalf("nothing to read after %q", buf[:got])
		}
		m, err := x.tty.Read(buf[got:])
		if err != nil {
			x.t.Fatal(err)
		}
		got += m
	}
	return string(buf[:got])
}

// TestPendingAnswers: what the terminal still has to say when the command ends is
// not typed into the shell; what the user types after it is.
func TestPendingAnswers(t *testing.T) {
	x := atTerminal(t, ttyOptions{})
	io.WriteString(x.command, "\x1b[c\x1b[6n\x1b]11;?\a")
	x.command.Close() // it ends without waiting for answers
	done := make(chan struct{})
	go func() {
		x.relay.flush()
		close(done)
	}()
	x.waits(terminal.Question, 2) // the second is aisb's
	x.types("\x1b[?62;22c\x1b[1;1R\x1b]11;rgb:0000/0000/0000\a")
	select {
	case <-done:
		t.Error("the command's own answer was taken for the last one")
	case <-time.After(20 * time.Millisecond):
	}
	x.types("\x1b[?62;22cls\r")
	<-done
	if got := x.reads(3); got != "ls\r" {
		t.Errorf("the shell reads %q", got)
	}
}

// TestAnswered: what the command has read itself is not waited for.
func TestAnswered(t *testing.T) {
	x := atTerminal(t, ttyOptions{})
	io.WriteString(x.command, "\x1b[c")
	x.waits("\x1b[c", 1)
	x.types("\x1b[?62c")
	buf := make([]byte, 20)
	if n, err := x.command.Read(buf); string(buf[:n]) != "\x1b[?62c" {
		t.Fatalf("the command reads %q, %v", buf[:n], err)
	}
	x.command.Close()
	typist := make(chan struct{})
	go func() {
		defer close(typist)
		x.waits(terminal.Question, 2)
		x.types("\x1b[?62cx")
	}()
	x.relay.flush()
	<-typist
	if got := x.reads(1); got != "x" {
		t.Errorf("the shell reads %q", got)
	}
}

// TestTypedAhead: where nothing was asked nothing is read, and nothing asked.
func TestTypedAhead(t *testing.T) {
	x := atTerminal(t, ttyOptions{})
	io.WriteString(x.command, "\x1b[31mred\x1b]52;c;aGk=\a")
	x.command.Close()
	<-x.relay.drained
	x.relay.typed.stop() // from here on the command is gone for the user
	x.types("ls\r")
	x.relay.flush()
	if got := x.reads(3); got != "ls\r" {
		t.Errorf("the shell reads %q", got)
	}
	x.waits("\x1b[0m", 1)
	if got := x.text(); got != "\x1b[31mred\x1b[0m" {
		t.Errorf("shown: %q", got)
	}
	if got := x.said.String(); !strings.Contains(got, "kept from your terminal: use of the clipboard (1)") {
		t.Errorf("said: %q", got)
	}
}

// TestSilentTerminal: one that answers nothing costs a moment, and ^C not even that.
func TestSilentTerminal(t *testing.T) {
	for name, key := range map[string]string{"silent": "", "interrupt": "\x03"} {
		t.Run(name, func(t *testing.T) {
			x := atTerminal(t, ttyOptions{})
			if key == "" {
				x.relay.settles = settleGrace
			}
			io.WriteString(x.command, "\x1b[?1003h") // the mouse, to the end
			x.command.Close()
			typist := make(chan struct{})
			go func() {
				defer close(typist)
				x.waits(terminal.Question, 1)
				x.types("\x1b[M !!" + key)
			}()
			begin := time.Now()
			x.relay.flush()
			if took := time.Since(begin); key == "" && took < settleGrace-time.Millisecond || took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			<-typist // or it would type at a terminal that isn't there any more
			if got := x.text(); !strings.HasPrefix(got, "\x1b[?1003h\x1b[?1003l"+terminal.Question) {
				t.Errorf("shown: %q", got)
			}
		})
	}
}

// TestRaw: --tty-raw changes nothing.
func TestRaw(t *testing.T) {
	x := atTerminal(t, ttyOptions{raw: true})
	const text = "\x1b]52;c;aGk=\a\xff\x1b[?1049h\x1b[c"
	io.WriteString(x.command, text)
	x.command.Close()
	x.relay.flush()
	x.waits("\x1b[c", 1)
	if got := x.text(); got != text {
		t.Errorf("shown: %q", got)
	}
	ttyOptions{raw: true}.warn(x.relay.ui, x.tty)
	ttyOptions{raw: false}.warn(x.relay.ui, x.tty)
	if got := x.said.String(); strings.Count(got, "warning: --tty-raw: ") != 1 {
		t.Errorf("said: %q", got)
	}
}

// TestNoTerminal: a file gets every byte, and no warning is worth it.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const text = "\x1b]52;c;aGk=\a\xff\x1b[?1049h"
	var said bytes.Buffer
	rel := &relay{ui: &ui{Err: &said}}
	if err := rel.screen(w, true).copy(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	ttyOptions{raw: true}.warn(rel.ui, w)
	w.Close()
	if got, err := io.ReadAll(r); string(got) != text || said.Len() > 0 {
		t.Errorf("%q, %v, said %q", got, err, said.String())
	}
}

// TestReadsUTF8: the line says so, or the locale.
func TestReadsUTF8(t *testing.T) {
	_, tty := openPty(t)
	for _, c := range []struct {
		iutf8 bool
		env   map[string]string
		want  bool
	}{
		{false, nil, false},
		{true, nil, true},
		{true, map[string]string{"LANG": "de_DE.ISO-8859-1"}, true},
		{false, map[string]string{"LANG": "C.UTF-8"}, true},
		{false, map[string]string{"LANG": "en_US.utf8"}, true},
		{false, map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C"}, false},
		{false, map[string]string{"LANG": "C", "LC_CTYPE": "C.UTF-8", "LC_ALL": ""}, true},
	} {
		mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if mode.Iflag &^= unix.IUTF8; c.iutf8 {
			mode.Iflag |= unix.IUTF8
		}
		if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, mode); err != nil {
			t.Fatal(err)
		}
		if got := readsUTF8(tty, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("iutf8 %v, %v: %v", c.iutf8, c.env, got)
		}
	}
}

// TestSameTerminal: two of them are two.
func TestSameTerminal(t *testing.T) {
	_, a := openPty(t)
	_, b := openPty(t)
	again, err := os.OpenFile(a.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !sameTerminal(a, again) || sameTerminal(a, b) || sameTerminal(a, os.Stdin) && !isTerminal(os.Stdin) {
		t.Error("taken for one another")
	}
}
