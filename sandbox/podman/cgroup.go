package podman

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Controllers are the cgroup controllers that podman can use for this user:
// those delegated to the user's systemd session, or to the own cgroup without
// one. root is /. A host with cgroup v1 delegates none.
func Controllers(root string, systemd bool, uid int) []string {
	group := fmt.Sprintf("user.slice/user-%d.slice/user@%d.service", uid, uid)
	if !systemd {
		own, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
		if err != nil {
			return nil
		}
		i := strings.Index(string(own), "0::")
		if i < 0 {
			return nil
		}
		group, _, _ = strings.Cut(string(own[i+3:]), "\n")
	}
	text, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", group, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// Enforceable returns the limits that controllers allow, and a line for each
// that they don't: crun refuses to start with a limit that it can't set.
func (l Limits) Enforceable(controllers []string) (Limits, []string) {
	var missing []string
	for _, f := range []struct {
		value            *string
		controller, flag string
	}{
		{&l.Pids, "pids", "--pids-limit"},
		{&l.Memory, "memory", "--memory"},
		{&l.CPUs, "cpu", "--cpus"},
	} {
		if *f.value == "" || slices.Contains(controllers, f.controller) {
			continue
		}
		if *f.value == "0" { // no limit, which is nothing to enforce
			*f.value = ""
			continue
		}
		missing = append(missing, fmt.Sprintf("this host can't enforce %s %s: it delegates no %s controller to you (cgroup v2)",
			f.flag, *f.value, f.controller))
		*f.value = ""
	}
	return l, missing
}
