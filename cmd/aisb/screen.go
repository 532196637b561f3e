package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aisb-dev/aisb/sandbox/terminal"
)

// ttyOptions are the flags about the user's terminal.
type ttyOptions struct{ raw bool }

func (o *ttyOptions) flag(f *pflag.FlagSet) {
	f.BoolVar(&o.raw, "tty-raw", false, "let the terminal get all output, unfiltered")
}

// warn says what the flag opens, where there is a terminal.
func (o ttyOptions) warn(u *ui, files ...*os.File) {
	if o.raw && slices.ContainsFunc(files, isTerminal) {
		u.warnf("--tty-raw: the command can set your clipboard, send files to your terminal and make it type")
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// screen is one of the user's files, as the command writes to it: everything that
// reaches the user's terminal passes here. What is no terminal gets every byte.
type screen struct {
	to        io.Writer
	file      *os.File
	turn      *sync.Mutex      // of the terminal
	filter    *terminal.Filter // nil: none is wanted
	asked     time.Time        // when the last question to the terminal passed
	reporting bool             // the terminal was sending by itself to the end
}

// screen is r's for a file. answers says that what a terminal sends there is
// passed on to the command.
func (r *relay) screen(to *os.File, answers bool) *screen {
	s := &screen{to: patient{to}, file: to, turn: &sync.Mutex{}}
	if isTerminal(to) && !r.tty.raw {
		for _, other := range r.screens {
			if sameTerminal(other.file, to) {
				s.turn = other.turn
			}
		}
		s.to = inTurn{s.to, s.turn}
		s.filter = terminal.New(s.to, terminal.Options{Answers: answers, EightBit: !readsUTF8(to, os.Getenv)})
		r.screens = append(r.screens, s)
	}
	return s
}

// inTurn writes as a whole what two streams write to one terminal: write(2) may take a
// part, and the other stream would put its text into the middle of a sequence.
type inTurn struct {
	to   io.Writer
	turn *sync.Mutex
}

func (t inTurn) Write(p []byte) (int, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	return t.to.Write(p)
}

// Write passes on what may pass.
func (s *screen) Write(p []byte) (int, error) {
	if s.filter == nil {
		return s.to.Write(p)
	}
	before := s.filter.Asked().All
	n, err := s.filter.Write(p)
	if s.filter.Asked().All != before {
		s.asked = time.Now()
	}
	return n, err
}

// copy copies until the end of src, and puts back what was set.
func (s *screen) copy(src io.Reader) error {
	err := relayCopy(s, src)
	if s.filter == nil {
		return err
	}
	s.reporting = s.filter.Reporting()
	if closeErr := s.filter.Close(); err == nil {
		err = closeErr
	}
	return err
}

// readsUTF8 reports whether a terminal reads UTF-8: the kernel is told so by
// terminal emulators and by sshd (IUTF8 in termios(3)), the programs by the
// locale (locale(7): the first of these that isn't empty).
func readsUTF8(tty *os.File, getenv func(string) string) bool {
	if t, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err == nil && t.Iflag&unix.IUTF8 != 0 {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// sameTerminal reports whether two files are one terminal, by whatever name
// (/dev/tty is one for all).
func sameTerminal(a, b *os.File) bool {
	x, errX := unix.IoctlGetUint32(int(a.Fd()), unix.TIOCGDEV)
	y, errY := unix.IoctlGetUint32(int(b.Fd()), unix.TIOCGDEV)
	return errX == nil && errY == nil && x == y
}

// tellKept says what didn't reach the terminal, if that was of a kind that the
// user may miss or want to know of.
func (r *relay) tellKept() {
	count := map[terminal.Kind]int{}
	for _, s := range r.screens {
		for kind, n := range s.filter.Kept() {
			count[kind] += n
		}
	}
	if text := keptText(count); text != "" {
		r.ui.notef("kept from your terminal: %s; --tty-raw lets everything through", text)
	}
	if count[terminal.Bytes] > 0 {
		r.ui.hintf("if this terminal reads UTF-8, say so: stty iutf8, or LANG=C.UTF-8")
	}
}

func keptText(count map[terminal.Kind]int) string {
	var parts []string
	for kind, n := range count {
		parts = append(parts, fmt.Sprintf("%s (%d)", kind, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
