package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ sig syscall.Signal }

func (i interrupted) Error() string { return i.sig.String() }

// untilSignal returns a context that SIGINT, SIGTERM, SIGHUP and SIGQUIT end,
// with the signal as its cause: signal.NotifyContext tells it as text alone. A
// second signal ends aisb at once, so that nobody has to wait for a podman that
// hangs: the lifelines clean up.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case sig := <-signals:
			cancel(interrupted{sig.(syscall.Signal)})
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// notify is signal.Notify, but signals that aisb was started with ignored stay
// so: SIGHUP by nohup(1), SIGINT in the background of a script (POSIX shell,
// section 2.11). signal.Notify would undo that.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// interruptedError is the error of what a signal ended before it was done, with
// the status that a shell gives such a process; nil if none did.
func interruptedError(ctx context.Context, before string) error {
	var i interrupted
	if !errors.As(context.Cause(ctx), &i) {
		return nil
	}
	return &exitError{code: 128 + int(i.sig), err: fmt.Errorf("interrupted before %s", before)}
}
