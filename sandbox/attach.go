package sandbox

import (
	"context"
	"os"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// attacher joins a client with the command.
type attacher func(ctx context.Context, a control.Attach) ([]*os.File, error)

// Name is the run's.
func (s *Session) Name() string { return s.spec.Name }

// StateDir is the directory of what is kept of the run: its log.
func (s *Session) StateDir() string { return s.dirs.State }

// ServeAttach lets others attach to the command, whose streams somebody holds.
func (s *Session) ServeAttach(join func(ctx context.Context, a control.Attach) ([]*os.File, error)) {
	a := attacher(join)
	s.keeper.Store(&a)
}

func (s *Session) attach(ctx context.Context, a control.Attach) ([]*os.File, error) {
	join := s.keeper.Load()
	switch {
	case join != nil:
		return (*join)(ctx, a)
	case s.spec.Detached:
		return nil, &control.Error{Text: "the sandbox is still starting", Hint: "try again in a moment", Status: podman.StatusPodman}
	}
	return nil, &control.Error{Text: "the sandbox has its user's terminal: it was not started with --detach", Status: podman.StatusPodman,
		Hint: "'aisb shell' opens another terminal in it; 'aisb stop' ends it"}
}
