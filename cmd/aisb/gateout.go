package main

import (
	"fmt"
	"io"
	"sync"
)

// logOutput is where a gate's log goes. The first write that fails is told, once:
// what can't be written down is not to happen.
type logOutput struct {
	w      io.Writer
	once   sync.Once
	failed chan error // has room for the one
}

func newLogOutput(w io.Writer) *logOutput {
	return &logOutput{w: w, failed: make(chan error, 1)}
}

// Write implements io.Writer. By its error nothing is allowed until the gate has ended.
func (o *logOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.once.Do(func() { o.failed <- err })
	}
	return n, err
}

// noLog is why a gate ends whose log can't be written.
func noLog(err error) error {
	return &exitError{code: 1, err: fmt.Errorf("write the log: %w", err), hint: "without its log the gate serves nobody; give its stdout room"}
}
