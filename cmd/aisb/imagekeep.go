package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/image"
)

// lock makes builds wait for each other. Two of one image would do the work
// twice, and what a build that was cut off left can only be told from another's
// when none is running. The lock ends with the process.
func (b *builder) lock(ctx context.Context) (unlock func(), waited bool, err error) {
	if err := os.MkdirAll(b.records.Dir, 0o700); err != nil {
		return nil, false, &exitError{code: exitPodman, err: fmt.Errorf("make the directory for what aisb knows of its images: %w", err),
			hint: "set XDG_STATE_HOME to a directory that you can write to; without it that is ~/.local/state"}
	}
	f, err := os.OpenFile(filepath.Join(b.records.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock the images: %w", err)
	}
	unlock = func() { f.Close() }
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b.u.notef("another aisb builds or removes images: waiting for it")
		ctx, stop := untilSignal(ctx)
		defer stop()
		waited = true
		got := make(chan error, 1)
		go func() { got <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }() // ends with the process at the latest
		select {
		case err = <-got:
		case <-ctx.Done():
			return nil, true, b.interrupted(ctx, ctx.Err())
		}
	}
	if err != nil {
		f.Close()
		return nil, waited, fmt.Errorf("lock the images: %w", err)
	}
	return unlock, waited, nil
}

// sweep removes what a build that was cut off left. It needs the lock.
func (b *builder) sweep(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	ids, err := b.working(ctx)
	if err != nil {
		return // what is left does no harm, and 'image prune' tries again
	}
	for _, id := range ids {
		_, _ = b.output(ctx, image.RemoveContainerArgs(id))
	}
}

// working are the IDs of the containers that a build works in, or was cut off in.
func (b *builder) working(ctx context.Context) ([]string, error) {
	containers, err := b.output(ctx, image.WorkingArgs())
	if err != nil {
		return nil, err
	}
	layers, err := b.output(ctx, image.LayersArgs())
	if err != nil {
		return nil, err
	}
	return image.ParseWorking(containers, layers)
}

func (b *builder) list(ctx context.Context) ([]image.Listed, error) {
	out, err := b.output(ctx, image.ListArgs())
	if err != nil {
		return nil, err
	}
	return image.ParseList(out)
}

// prune removes the images whose record is missing or older than before.
func (b *builder) prune(ctx context.Context, all bool, before time.Time) error {
	unlock, _, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	b.sweep(ctx)
	list, err := b.list(ctx)
	if err != nil {
		return err
	}
	records, err := b.records.All()
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, r := range records {
		if !all && r.Used.After(before) {
			keep[r.Tag] = true
			continue
		}
		if err := b.records.Forget(r.Key); err != nil {
			return err
		}
	}
	for _, i := range list {
		if keep[i.Ref] {
			continue
		}
		if _, err := b.output(ctx, image.RemoveArgs(i.Ref)); err != nil {
			// In use, most likely: podman says by what.
			b.u.warnf("kept %s: %v", i.Ref, err)
			continue
		}
		fmt.Fprintln(b.u.Out, printable(i.Ref))
	}
	_, err = b.output(ctx, image.PruneArgs())
	return err
}
