// Package screen is a terminal for tests: it holds what a user would see, cell by
// cell, and answers what terminals of today answer, so that an interface uses all
// that it can.
package screen

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Screen is a terminal. Whoever writes to it reads its answers too, from another
// goroutine: an answer that nobody reads holds up the Write that caused it.
type Screen struct {
	mu    sync.Mutex
	vt    *vt.Emulator
	set   map[ansi.Mode]bool
	keys  int // pushed, of Kitty's protocol
	title string
	steps []Step
}

// Step is what a terminal got at once or, without a text, a size that it was given.
type Step struct {
	Text       string
	Rows, Cols int
}

// New is an empty screen.
func New(rows, cols int) *Screen {
	s := &Screen{vt: vt.NewEmulator(cols, rows), set: map[ansi.Mode]bool{}}
	s.vt.SetCallbacks(vt.Callbacks{
		EnableMode:  func(m ansi.Mode) { s.set[m] = true },
		DisableMode: func(m ansi.Mode) { s.set[m] = false },
		Title:       func(text string) { s.title = text },
	})
	s.answer()
	return s
}

// Write shows what p says. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, Step{Text: string(p)})
	return s.vt.Write(p)
}

// Resize gives it another size.
func (s *Screen) Resize(rows, cols int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, Step{Rows: rows, Cols: cols})
	s.vt.Resize(cols, rows)
}

// Read returns answers, until Close.
func (s *Screen) Read(p []byte) (int, error) { return s.vt.Read(p) }

// Close ends Read.
func (s *Screen) Close() error {
	return s.vt.InputPipe().(io.Closer).Close() // the emulator's own Close isn't for while another reads
}

// Text is what can be read, in lines.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vt.String()
}

// Steps are all so far.
func (s *Screen) Steps() []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.steps)
}

// rest are the modes that a terminal begins with; the others are off. Of those that
// aren't here docs/terminal.md says why nobody puts them back.
var rest = map[ansi.Mode]bool{ansi.ModeAutoWrap: true, ansi.ModeTextCursorEnable: true}

// Changed are the modes that a shell would find other than they were at first, and
// what was pushed of the keyboard's.
func (s *Screen) Changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for m, on := range s.set {
		if on != rest[m] && m != ansi.ModeUnicodeCore && m != ansi.DECMode(1007) {
			list = append(list, fmt.Sprintf("mode %d is %t", m.Mode(), on))
		}
	}
	if s.keys != 0 {
		list = append(list, fmt.Sprintf("%d flags of the keyboard are left", s.keys))
	}
	return list
}
