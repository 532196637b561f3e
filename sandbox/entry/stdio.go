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
	e.spoil("dropped")
	status, err := e.statusPipe()
	var s streams
	if err == nil {
		defer status.Close()
		s, err = makeStreams(e.cfg.TTY, e.cfg.Rows, e.cfg.Cols)
	}
	if err != nil {
		return &failure{handshake.Stdio, handshake.ExitProof, err, ""}
	}
	defer closeAll(s.ours)
	e.command.files = s.theirs
	// Sent copies stay open in aisb alone: its end is the command's end of file.
	return e.tell(handshake.Stage{Stage: handshake.Stdio}, slices.Insert(slices.Clone(s.ours), 0, status)...)
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

// streams are a command's standard input, output and error.
type streams struct {
	theirs []*os.File // the command's; a terminal three times
	ours   []*os.File // the other ends, in the order in which aisb gets them
}

func makeStreams(tty bool, rows, cols uint16) (streams, error) {
	var s streams
	var err error
	if tty {
		err = s.terminal(rows, cols)
	} else {
		err = s.pipes()
	}
	if err != nil {
		s.close()
		return streams{}, err
	}
	return s, nil
}

func (s streams) close() {
	closeAll(s.theirs)
	closeAll(s.ours)
}

// closeAll closes files. A terminal is closed three times, which does no harm.
func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// terminal makes a pty with its size set before anyone can read it.
func (s *streams) terminal(rows, cols uint16) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	s.ours = []*os.File{os.NewFile(uintptr(fd), "ptmx")}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		return fmt.Errorf("set size of terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock terminal: %w", err)
	}
	// By descriptor, not by a path under a /dev/pts that may be another's.
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fmt.Errorf("open terminal's other end: %w", errno)
	}
	tty := os.NewFile(slave, "tty")
	s.theirs = []*os.File{tty, tty, tty}
	return nil
}

// pipes makes standard input, output and error. They block, as programs expect:
// os.Pipe would make them non-blocking for all who share them.
func (s *streams) pipes() error {
	for i := range 3 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		r, w := os.NewFile(uintptr(p[0]), "pipe"), os.NewFile(uintptr(p[1]), "pipe")
		if i == 0 {
			r, w = w, r
		}
		s.ours = append(s.ours, r)
		s.theirs = append(s.theirs, w)
	}
	return nil
}
