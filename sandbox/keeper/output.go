// Package keeper holds the terminal or the pipes of a command while nobody looks:
// it reads all that the command writes, keeps the end of it in a file, and joins
// whoever attaches, one at a time.
package keeper

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// MaxOutput is how much of what a command has written is kept at most, in two files
// of which the older is dropped when the newer is full.
const MaxOutput = 4 << 20

// Output keeps the end of what is written to it. A disk that is full or broken loses
// output, and never holds the command up.
type Output struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
	err  error // the first one
}

// NewOutput makes the file, for its user alone.
func NewOutput(path string) (*Output, error) { return newOutput(path, MaxOutput/2) }

func newOutput(path string, most int64) (*Output, error) {
	o := &Output{path: path, max: most}
	if err := o.open(); err != nil {
		return nil, fmt.Errorf("keep the output: %w", err)
	}
	return o, nil
}

func (o *Output) open() (err error) {
	o.size = 0
	o.file, err = os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// older is where what came before lies.
func older(path string) string { return path + ".1" }

// Write never fails: see Output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size > 0 && o.size+int64(len(p)) > o.max && o.file != nil {
		o.file.Close()
		o.file = nil
		err := os.Rename(o.path, older(o.path))
		if err == nil {
			err = o.open()
		}
		o.fail(err)
	}
	if o.file != nil {
		n, err := o.file.Write(p)
		o.size += int64(n)
		o.fail(err)
	}
	return len(p), nil
}

func (o *Output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// Close closes the file, and returns what went wrong with it.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.fail(o.file.Close())
		o.file = nil
	}
	if o.err != nil {
		return fmt.Errorf("keep the output: %w", o.err)
	}
	return nil
}

// CopyOutput copies what an Output with that path keeps, the older part first.
func CopyOutput(w io.Writer, path string) error {
	found := false
	for _, name := range []string{older(path), path} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
		_, err = io.Copy(w, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if !found {
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return nil
}
