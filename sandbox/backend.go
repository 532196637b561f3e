package sandbox

import (
	"context"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// ChooseBackend is the backend of a run in which asked was asked for, "" for the
// one that the host can do: Pasta where there is a whole one, and Inner, which
// needs none, otherwise (SPEC 2.8). It refuses a mode or backend that needs a
// pasta, where there is none that can be used.
func ChooseBackend(ctx context.Context, asked Backend, mode NetMode) (Backend, error) {
	if asked == Inner || mode == NetNone {
		return asked, nil
	}
	err := podman.CheckPasta(ctx, pastaOptions(mode))
	switch {
	case err == nil:
		return Pasta, nil
	case mode == NetAllow && asked == "":
		return Inner, nil
	}
	const newer = "install passt of 2024-10 or newer (sudo apt install passt, on Debian 13)"
	if mode != NetAllow {
		return "", &Failure{Status: podman.StatusPodman, Err: err, Hint: newer + ": --net full and --no-gate need it, --net allow doesn't"}
	}
	return "", &Failure{Status: podman.StatusPodman, Err: err, Hint: "use --net-backend inner, which needs no pasta, or " + newer}
}
