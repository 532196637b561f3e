package main

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blockingPipe is a pipe as a shell makes it.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

// Someone else who has the user's files open makes them non-blocking while aisb
// copies.
func TestRelayOfFilesThatBecomeNonBlocking(t *testing.T) {
	in, inEnd := blockingPipe(t)
	outEnd, out := blockingPipe(t)
	for _, f := range []*os.File{in, out} {
		if err := unix.SetNonblock(int(f.Fd()), true); err != nil {
			t.Fatal(err)
		}
	}
	copied := make(chan error, 1)
	go func() {
		err := relayCopy(patient{out}, patient{in})
		out.Close()
		copied <- err
	}()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // much more than pipes hold
	go func() {
		time.Sleep(50 * time.Millisecond) // nothing is there to read at first
		inEnd.Write(want)
		inEnd.Close()
	}()
	time.Sleep(200 * time.Millisecond) // and the pipes are full before anyone reads
	got, err := io.ReadAll(outEnd)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d arrived: %v", len(got), len(want), err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
}
