package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingIsInherited: what was open in whoever has called the parent is closed.
func TestNothingIsInherited(t *testing.T) {
	var left [2]int
	if err := unix.Pipe2(left[:], 0); err != nil { // not close-on-exec, as a shell leaves it
		t.Fatal(err)
	}
	defer unix.Close(left[0])
	p, err := Start(t.Context(), "/proc/self/exe", Config{Enclosed: true}, listen(t, t.TempDir()))
	unix.Close(left[1])
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(t.Context())
	poll := []unix.PollFd{{Fd: int32(left[0]), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents&unix.POLLHUP == 0 {
		t.Errorf("the gate that serves still has it (%v, events %#x)", err, poll[0].Revents)
	}
}
