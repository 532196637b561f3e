package podman

import "strings"

// hints are what to do about podman's errors, by a part of their text. podman
// has no error codes to go by; the texts are those of podman 4.9 to 5.4.
var hints = []struct{ part, hint string }{
	{noImage, "get it by 'podman pull' or 'podman build'; 'aisb image build' makes aisb's own, which needs no --image"},
	{"no subuid ranges found", "give yourself a range: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; podman system migrate"},
	{"no subgid ranges found", "give yourself a range: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; podman system migrate"},
	{"newuidmap", "install uidmap (shadow-utils), and give yourself a range in /etc/subuid and /etc/subgid"},
	{"oo many open files", "your limit of open files is too low: see ulimit -n, 1024 is usual"},
	{"could not find pasta", "install passt, which brings pasta(1), or use --net-backend inner, which needs none"},
	{"could not find \"pasta\"", "install passt, which brings pasta(1), or use --net-backend inner, which needs none"},
	{"Failed to set up tap device", "pasta needs /dev/net/tun: load the module tun, and see that you may open it; or use --net-backend inner"},
	{"pasta failed", "pasta(1) must be of 2024-10 or newer: install a newer passt, or use --net-backend inner, which needs none"},
	{"/dev/net/tun", "pasta needs /dev/net/tun: load the module tun, and see that you may open it"},
	{"no space left on device", "free some disk space: podman system prune, aisb image prune"},
	{"cannot clone: Operation not permitted", "user namespaces are closed to you: see sysctl kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces"},
	{"is not allowed when the container is in a cgroup", "this host can't enforce the limit"},
	{"controller `pids` is not available", noPids},
	{"controller `cpu` is not available", "this host delegates no cpu controller to you: run without --cpus"},
	{"controller `memory` is not available", noMemory},
	{"setrlimit `RLIMIT_", "your own limit is lower and can't be raised: see ulimit -H -a"},
	{"memory.max", noMemory},
	{"pids.max", noPids},
	{nameTaken, "a container that no aisb of this login has started has that name, see 'podman ps --all': choose another --name, or remove it"},
}

const (
	noMemory = "this host delegates no memory controller to you: run without --memory"
	noPids   = "this host delegates no pids controller to you: run with --pids-limit 0"
)

// noImage is what podman says of an image that --pull=never can't find.
const noImage = "image not known"

// nameTaken is what podman says of a name that another container has.
const nameTaken = "name is already in use"

// NameTaken reports whether an error text of podman is about a name that another
// container has.
func NameTaken(text string) bool { return strings.Contains(text, nameTaken) }

// NoImage reports whether an error text of podman is about a missing image.
func NoImage(text string) bool { return strings.Contains(text, noImage) }

// Hint says what to do about an error text of podman, "" when unknown.
func Hint(text string) string {
	for _, h := range hints {
		if strings.Contains(text, h.part) {
			return h.hint
		}
	}
	return ""
}
