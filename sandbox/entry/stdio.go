package entry

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// stdio makes the command's terminal or pipes, as the command's user, so that
// they belong to it, and hands the other ends to aisb: podman is not in the
// path of the data.
func (e *entry) stdio() *failure {
	var ours []*os.File
	status, err := e.statusPipe()
	switch {
	case err != nil:
	case e.cfg.TTY:
		ours, err = e.terminal()
	default:
		ours, err = e.pipes()
	}
	if status != nil {
		ours = slices.Insert(ours, 0, status)
	}
	defer func() {
		for _, f := range ours {
			f.Close()
		}
	}()
	if err != nil {
		return &failure{handshake.Stdio, handshake.ExitProof, err, ""}
	}
	// Sent copies stay open in aisb alone: its end is the command's end of file.
	return e.tell(handshake.Stage{Stage: handshake.Stdio}, ours...)
}

// statusPipe makes the pipe that the command's status goes through. The command
// gets neither end: its end of file is the end of pid 1 and of nothing else.
func (e *entry) statusPipe() (*os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	e.status = os.NewFile(uintptr(p[1]), "status")
	return os.NewFile(uintptr(p[0]), "status"), nil
}

// terminal makes a pty with its size set before anyone can read it.
func (e *entry) terminal() ([]*os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	master := []*os.File{os.NewFile(uintptr(fd), "ptmx")}
	size := &unix.Winsize{Row: e.cfg.Rows, Col: e.cfg.Cols}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size); err != nil {
		return master, fmt.Errorf("set size of terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return master, fmt.Errorf("unlock terminal: %w", err)
	}
	// By descriptor, not by a path under a /dev/pts that may be another's.
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return master, fmt.Errorf("open terminal's other end: %w", errno)
	}
	tty := os.NewFile(slave, "tty")
	e.command.files = []*os.File{tty, tty, tty}
	return master, nil
}

// pipes makes standard input, output and error. They block, as programs expect:
// os.Pipe would make them non-blocking for all who share them.
func (e *entry) pipes() (ours []*os.File, err error) {
	for i := range 3 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return ours, fmt.Errorf("make pipe: %w", err)
		}
		r, w := os.NewFile(uintptr(p[0]), "pipe"), os.NewFile(uintptr(p[1]), "pipe")
		if i == 0 {
			r, w = w, r
		}
		ours = append(ours, r)
		e.command.files = append(e.command.files, w)
	}
	return ours, nil
}
