package sandbox

import (
	"context"
	"errors"

	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// ChooseBackend is the backend of a run in which asked was asked for, "" for the
// best that the host can do: Inner, which has no way out to fence and was ahead in
// all that was measured (docs/networking.md), and Pasta where the kernel is too old
// for it. It refuses a mode or backend that needs a pasta, where there is none that
// can be used.
func ChooseBackend(ctx context.Context, asked Backend, mode NetMode) (Backend, error) {
	if asked == Inner || mode == NetNone {
		return asked, nil
	}
	var old error
	if asked == "" && mode == NetAllow {
		if old = proc.CanEnclose(); old == nil {
			return Inner, nil
		}
	}
	err := podman.CheckPasta(ctx, pastaOptions(mode))
	if err == nil {
		return Pasta, nil
	}
	err = errors.Join(err, old)
	const newer = "install passt of 2024-10 or newer (sudo apt install passt, on Debian 13)"
	switch {
	case mode != NetAllow:
		return "", &Failure{Status: podman.StatusPodman, Err: err, Hint: newer + ": --net full and --no-gate need it, --net allow doesn't"}
	case old != nil:
		return "", &Failure{Status: podman.StatusPodman, Err: err, Hint: newer + ", or a newer kernel"}
	}
	return "", &Failure{Status: podman.StatusPodman, Err: err, Hint: "use --net-backend inner, which needs no pasta, or " + newer}
}
