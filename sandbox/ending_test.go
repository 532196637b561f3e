package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A status below 129 of a pid 1 that didn't hand one over would pass for the
// command's: a Go program that crashes has 2.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		handed string
		cut    bool
		podman int
		want   int
		lost   bool
	}{
		"the command's":                 {handed: "\x05", podman: 5, want: 5},
		"none but zero":                 {handed: "\x00", podman: 0, want: 0},
		"podman fails to clean up":      {handed: "\x05", podman: 125, want: 5},
		"podman was killed after it":    {handed: "\x05", podman: 137, want: 5},
		"killed by aisb":                {cut: true, podman: 137, want: 137},
		"killed, lost by podman":        {cut: true, podman: 127, want: 137},
		"ended while aisb killed it":    {handed: "\x05", cut: true, podman: 137, want: 5},
		"pid 1 crashed":                 {podman: 2, want: 125, lost: true},
		"pid 1 ended as if all is well": {podman: 0, want: 125, lost: true},
		"pid 1 was killed":              {podman: 137, want: 137, lost: true},
		"podman can't start containers": {podman: 125, want: 125, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteString(c.handed); err != nil {
				t.Fatal(err)
			}
			w.Close()
			s := &Session{ending: watchEnding(r), cut: make(chan struct{})}
			<-s.ending.done
			if c.cut {
				close(s.cut)
			}
			got, err := s.verdict(c.podman)
			if got != c.want || errors.Is(err, ErrNoStatus) != c.lost {
				t.Errorf("status %d, %v; want %d, lost %v", got, err, c.want, c.lost)
			}
		})
	}
}

// A process that ignores everything ends by its handle, one that has ended
// does no harm.
func TestHandle(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := openHandle(cmd.Process.Pid)
	defer h.close()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	h.signal(syscall.SIGKILL)
	if !within(done, 10*time.Second) {
		cmd.Process.Kill()
		t.Fatal("a stopped process lives on")
	}
	h.signal(syscall.SIGKILL)
	gone := openHandle(cmd.Process.Pid)
	gone.signal(syscall.SIGKILL)
	gone.close()
	if gone != noHandle {
		t.Error("a process that was waited for has a handle")
	}
}
