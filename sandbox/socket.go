package sandbox

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// errStopped ends a start that somebody else has asked to end.
var errStopped = errors.New("stopped before the command ran")

// reachable is what others reach a run by.
type reachable struct {
	control *control.Server // nil before others may come
	keeper  atomic.Pointer[attacher]
}

// openControl lets other commands find the run and speak with it. It comes when
// the gate is up, which removes the socket should aisb be killed.
func (s *Session) openControl() error {
	server, err := control.Listen(s.dirs.Runtime)
	if err != nil {
		return err
	}
	s.control = server
	server.Serve(control.Handler{Info: s.info, Stop: s.Stop, Exec: s.Exec, Attach: s.attach})
	return nil
}

// closeControl tells those who wait for the end that this is it.
func (s *Session) closeControl() {
	if s.control != nil {
		s.control.Close()
	}
}

// info is what the run tells of itself.
func (s *Session) info() control.Info {
	i := control.Info{
		Name: s.spec.Name, State: control.Starting, PID: os.Getpid(), Command: s.spec.Argv,
		Net: string(s.spec.Net), Image: s.spec.Image, Started: s.created, Detached: s.spec.Detached,
		Aisb: s.host.Version,
	}
	for n, m := range s.spec.Mounts {
		if n == 0 {
			i.Project = handshake.Bytes(m.Source)
		}
		if !m.ReadOnly {
			i.Writable = append(i.Writable, handshake.Bytes(m.Source))
		}
	}
	if s.spec.Net == NetAllow {
		i.Backend = string(s.spec.Backend)
	}
	for _, p := range s.Published() {
		i.Ports = append(i.Ports, control.Port{Host: p.Host, Sandbox: p.Port})
	}
	select {
	case <-s.running:
	default:
		return i
	}
	i.State, i.Started = control.Running, s.started
	select {
	case <-s.ending.done:
		i.State = control.Ending
	case <-s.cut:
		i.State = control.Ending
	default:
	}
	return i
}

// Ended is closed when the command has ended.
func (s *Session) Ended() <-chan struct{} { return s.ending.done }

// outputGrace is how long the last output of a command that was stopped may take to
// be read.
const outputGrace = time.Second

// Stop ends the run: the command gets SIGTERM, and is killed when it hasn't ended
// within grace. It returns when one of these is through, which Wait tells of. A user
// who has stopped reading what the command wrote doesn't hold up the end for long.
func (s *Session) Stop(grace time.Duration) {
	s.giveUp(errStopped) // a start, if it is one yet
	select {
	case <-s.running:
	case <-s.aborted:
		return
	}
	if grace > 0 {
		_ = s.Signal(syscall.SIGTERM) // an error means that it has ended
		select {
		case <-s.ending.done:
			time.AfterFunc(outputGrace, s.Kill)
			return
		case <-s.cut:
			return
		case <-time.After(grace):
		}
	}
	s.Kill()
}

// Killed is closed once Kill was called, by whomever.
func (s *Session) Killed() <-chan struct{} { return s.cut }
