package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Stdio are the command's terminal or pipes, made inside the container. podman
// is not in between.
type Stdio struct {
	PTY    *os.File // master; nil without a terminal
	Stdin  *os.File // to write; nil with a terminal, like the next two
	Stdout *os.File
	Stderr *os.File
}

func (d Stdio) close() {
	for _, f := range []*os.File{d.PTY, d.Stdin, d.Stdout, d.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// takeStdio keeps the descriptors of the Stdio stage.
func (s *Session) takeStdio(m fdmsg.Message) error {
	switch {
	case s.spec.TTY && len(m.Files) == 2:
		s.stdio.PTY = m.Files[1]
	case !s.spec.TTY && len(m.Files) == 4:
		s.stdio.Stdin, s.stdio.Stdout, s.stdio.Stderr = m.Files[1], m.Files[2], m.Files[3]
	default:
		m.Close()
		return fmt.Errorf("entrypoint sent %d descriptors", len(m.Files))
	}
	s.ending = watchEnding(m.Files[0])
	return nil
}

// complete refuses a start of which a part was left out. One binary is on both sides,
// so only a fault of ours could do that, and it must not start anything.
func (s *Session) complete() error {
	switch {
	case s.ending == nil:
		return errors.New("entrypoint starts the command without its streams")
	case s.spec.Net != NetFull && !s.spec.AllowUnenforced && (len(s.proof) == 0 || s.dog.filter == nil && !blinded()):
		return &Failure{Status: handshake.ExitProof, Err: errors.New("entrypoint starts the command without a proof of the fence"), Hint: "please report that"}
	}
	return nil
}

// fenced takes the socket to watch the fence by. It may be missing only where there is
// no fence (--allow-unenforced), which the warning says.
func (s *Session) fenced(st handshake.Stage, m fdmsg.Message) error {
	switch {
	case len(m.Files) == 1:
		return s.openWatchdog(m.Files[0], s.policy)
	case len(m.Files) == 0 && st.Warning != "":
		return nil
	}
	return fmt.Errorf("entrypoint sent %d sockets to watch its fence by", len(m.Files))
}
