package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// ownNamespaces are those that a container must not share with the host. Not the
// cgroup namespace: with cgroup v1 podman makes none (podman-run(1), --cgroupns).
var ownNamespaces = []string{"user", "mnt", "pid", "net", "ipc", "uts"}

// checkNamespaces refuses a container that shares a namespace with this process:
// from inside nothing tells whose it is. proc is /proc.
func checkNamespaces(proc string, pid int) error {
	for _, name := range ownNamespaces {
		ours, err := os.Stat(filepath.Join(proc, "self/ns", name))
		if err != nil {
			return fmt.Errorf("look at the container's namespaces: %w", err)
		}
		theirs, err := os.Stat(filepath.Join(proc, strconv.Itoa(pid), "ns", name))
		if err != nil {
			return fmt.Errorf("look at the container's namespaces: %w", err)
		}
		if os.SameFile(ours, theirs) {
			return &Failure{Status: handshake.ExitProof,
				Err:  fmt.Errorf("container is not what was asked for: it shares the host's %s namespace", name),
				Hint: "extra podman arguments or another program in podman's place may have changed it"}
		}
	}
	return nil
}
