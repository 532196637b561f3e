package main

import (
	"context"
	"errors"
	"time"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// runSession starts the sandbox, relays until it ends and prints the receipt.
func runSession(ctx context.Context, u *ui, host sandbox.Host, spec sandbox.Spec, o sessionOptions, tty ttyOptions) error {
	kept, err := keepHome(ctx, host, spec.HomeVolume)
	if err != nil {
		return err
	}
	defer kept.close()
	startCtx, stop := untilSignal(ctx)
	held := heldSignals()
	session, err := startSession(startCtx, u, host, spec, kept)
	if err != nil {
		interrupted := interruptedError(startCtx, "the command ran")
		stop()
		if interrupted != nil {
			return interrupted
		}
		return startError(err)
	}
	with, err := accompany(u, session, held, tty)
	late := interruptedError(startCtx, "the command ran") // it came when that was just about to
	stop()                                                // from here on it passes the signals on
	if err != nil {
		session.Kill()
		session.Wait(ctx)
		return &exitError{code: exitPodman, err: err}
	}
	if late != nil {
		session.Kill()
	}
	limit := o.limit(session)
	pruned := session.Prune(time.Now())
	with.tell(session)
	through := with.flush()
	result := session.Wait(ctx)
	tooLong := limit.ended()
	with.stop()
	if through {
		// Otherwise nobody reads what aisb writes: the receipt would get stuck too.
		if result.GateDied {
			u.gateDied()
		}
		receipt(u, spec, result, time.Since(session.Started()))
		kept.tell(u)
		if pruned != nil {
			u.warnf("%v", pruned)
		}
	}
	switch {
	case late != nil:
		return late
	case tooLong != nil && result.Stopped == nil:
		return tooLong
	}
	return resultError(result, through)
}

// startSession starts the sandbox and says what comes up meanwhile.
func startSession(ctx context.Context, u *ui, host sandbox.Host, spec sandbox.Spec, kept *keptHome) (*sandbox.Session, error) {
	quick := noteSlowStart(u, spec, recordsIn(host.Paths.State))
	defer quick()
	session, err := sandbox.Start(ctx, host, spec, sandbox.Events{
		Mounted: kept.look,
		Stage: func(s handshake.Stage) {
			if s.Warning != "" {
				u.warnf("%s", s.Warning)
			}
		},
		Warn: func(text string) { u.warnf("%s", text) },
		Part: tracing(u),
	})
	if err != nil {
		return nil, err
	}
	sayJoins(u, session)
	return session, nil
}

// resultError is how aisb itself ends. It says why when the receipt has not.
func resultError(result sandbox.Result, told bool) error {
	switch {
	case result.Stopped != nil:
		return &exitError{code: result.Status, err: result.Stopped.Err, hint: result.Stopped.Hint}
	case errors.Is(result.Err, sandbox.ErrNoStatus) && told:
		return &exitError{code: result.Status, err: result.Err, hint: result.Hint}
	case result.Status != 0:
		return &exitError{code: result.Status}
	}
	return nil
}

// startError gives the error of a start its status and hint.
func startError(err error) error {
	if f, ok := errors.AsType[*sandbox.Failure](err); ok {
		return &exitError{code: f.Status, err: f.Err, hint: f.Hint}
	}
	return &exitError{code: exitPodman, err: err}
}
