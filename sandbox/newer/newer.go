// Package newer is the error of a file that a newer aisb has written in a form which
// this one doesn't know. What such a file says is not guessed at: what looks familiar
// in it may mean less, or something else.
package newer

import "fmt"

// Error is of such a file.
type Error struct {
	Path          string
	Format, Known int
}

func (e *Error) Error() string {
	return fmt.Sprintf("%q was written by a newer aisb, in format %d; this one knows formats up to %d", e.Path, e.Format, e.Known)
}

// Check returns an *Error unless format is known. Files from before there were formats
// have 0, and are like those of format 1.
func Check(path string, format, known int) error {
	if format < 0 || format > known {
		return &Error{Path: path, Format: format, Known: known}
	}
	return nil
}
