package screen

import (
	"fmt"
	"io"

	uv "github.com/charmbracelet/ultraviolet"
)

// Differ says where two screens differ first in what they show, now or scrolled back;
// "" if nowhere.
func Differ(a, b *Screen) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range []struct {
		what string
		a, b any
	}{
		{"rows", a.vt.Height(), b.vt.Height()},
		{"columns", a.vt.Width(), b.vt.Width()},
		{"alternate screen", a.vt.IsAltScreen(), b.vt.IsAltScreen()},
		{"title", a.title, b.title},
		{"cursor's place", a.vt.CursorPosition(), b.vt.CursorPosition()},
		{"hidden cursor", a.vt.CursorHidden(), b.vt.CursorHidden()},
		{"cursor's shape", shape(a), shape(b)},
		{"text's colour", a.vt.ForegroundColor(), b.vt.ForegroundColor()},
		{"ground's colour", a.vt.BackgroundColor(), b.vt.BackgroundColor()},
		{"cursor's colour", a.vt.CursorColor(), b.vt.CursorColor()},
		{"lines that were scrolled away", a.vt.ScrollbackLen(), b.vt.ScrollbackLen()},
	} {
		if d.a != d.b {
			return fmt.Sprintf("%s: %v and %v", d.what, d.a, d.b)
		}
	}
	for y := -a.vt.ScrollbackLen(); y < a.vt.Height(); y++ {
		for x := range a.vt.Width() {
			if a, b := a.cell(x, y), b.cell(x, y); a != b && (a == nil || !a.Equal(b)) {
				return fmt.Sprintf("line %d, column %d: %s and %s", y, x, look(a), look(b))
			}
		}
	}
	return ""
}

// cell is that of a line; those that were scrolled away are above 0.
func (s *Screen) cell(x, y int) *uv.Cell {
	if y < 0 {
		return s.vt.ScrollbackCellAt(x, y+s.vt.ScrollbackLen())
	}
	return s.vt.CellAt(x, y)
}

func look(c *uv.Cell) string {
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%q %d wide, %+v, %v", c.Content, c.Width, c.Style, c.Link)
}

func shape(s *Screen) string {
	style, blinks := s.vt.CursorStyle()
	return fmt.Sprint(style, blinks)
}

// Play shows what a terminal got on two screens, on one of them through a filter, and
// says where they differ first.
func Play(steps []Step, rows, cols int, filter func(io.Writer) io.Writer) error {
	a, b := New(rows, cols), New(rows, cols)
	for _, s := range []*Screen{a, b} {
		defer s.Close()
		go s.Discard()
	}
	filtered := filter(b)
	for i, step := range steps {
		if step.Text == "" {
			a.Resize(step.Rows, step.Cols)
			b.Resize(step.Rows, step.Cols)
		}
		io.WriteString(a, step.Text)
		if _, err := io.WriteString(filtered, step.Text); err != nil {
			return err
		}
		if d := Differ(a, b); d != "" {
			return fmt.Errorf("after %d of %d steps, the last %.200q: %s", i+1, len(steps), step.Text, d)
		}
	}
	return nil
}
