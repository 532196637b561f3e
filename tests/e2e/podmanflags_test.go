//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// without leaves an argument of podman's out, and pair one with the word after it.
func without(arg string) string { return `[ "$a" = '` + arg + `' ] && continue` }

// instead puts something in the place of a part of any argument.
func instead(part, other string) string { return `a=${a//'` + part + `'/'` + other + `'}` }

// also adds arguments after "run".
func also(args string) string {
	return `if [ "$a" = run ]; then args+=(run ` + args + `); continue; fi`
}

// Point 2: every flag of podman's that the sandbox rests on, left out or changed
// by a program in podman's place: the start is refused. Who refuses is in the
// message. TestPoint4MissingRights has the capabilities and the user namespace.
func TestEveryFlagOfPodman(t *testing.T) {
	pasta := append([]string{"--net-backend", "pasta"}, allowed...)
	for _, tt := range []struct {
		name, script string
		flags        []string // allowed, if nil
		status       int
		part         string
	}{
		{"no user namespace asked for", without("--userns=keep-id:uid=1000,gid=1000"), nil, 78, "not what was asked for"},
		{"writable root", without("--read-only"), nil, 78, "root file system is writable"},
		{"privileged", also("--privileged"), nil, 78, "was not asked for"},
		{"a device", also("--device /dev/net/tun"), nil, 78, `mount "/dev/net/tun"`},
		{"the host's processes", also("--pid=host"), nil, 125, ""},
		{"the host's ipc", also("--ipc=host") + `; [ "$a" = --shm-size ] && a=--label`, nil, 78, "the host's ipc namespace"},
		{"the host's uts", also("--uts=host") + "; " + instead("--hostname", "--label"), nil, 78, "the host's uts namespace"},
		{"the host's network", `[ "$a" = none ] && a=host`, []string{"--net", "none"}, 78, "not what was asked for"},
		{"no pasta", `case $a in pasta:*) a=none;; esac`, pasta, 78, "pasta"},
		{"no hosts file", instead("target=/etc/hosts", "target=/mnt/x"), nil, 78, "/mnt/x"},
		{"writable hosts file", `case $a in *target=/etc/hosts*) a=${a/,ro=true/};; esac`, nil, 78, `mount "/etc/hosts" is writable`},
		{"writable resolv.conf", `case $a in *target=/etc/resolv.conf*) a=${a/,ro=true/};; esac`, nil, 78, `mount "/etc/resolv.conf" is writable`},
		{"writable program", `case $a in *target=/usr/local/bin/aisb*) a=${a/,ro=true/};; esac`, nil, 78, "is writable"},
		{"writable entrypoint", `case $a in *target=/usr/libexec/aisb-entry*) a=${a/,ro=true/};; esac`, nil, 78, "is writable"},
		{"no entrypoint", instead("target=/usr/libexec/aisb-entry", "target=/mnt/x"), nil, 125, ""},
		{"the project elsewhere", instead("target=/project", "target=/mnt/x"), nil, 78, "/mnt/x"},
		{"no home", instead("/home/agent:", "/mnt/x:"), nil, 78, "/mnt/x"},
		{"another program first", instead(`["/usr/libexec/aisb-entry"]`, `["/bin/true"]`), nil, 125, ""},
		{"podman's own init", also("--init"), nil, 125, ""},
		{"no descriptor", instead("--preserve-fds=1", "--preserve-fds=0"), nil, 125, ""},
		{"secrets of podman's", also("--mount type=tmpfs,target=/run/secrets"), nil, 78, "/run/secrets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			c := call{dir: project(t), env: wrapped(t, tt.script)}
			if tt.flags == nil {
				tt.flags = allowed
			}
			o := c.aisb(t, tt.flags, sh("touch /project/ran")...)
			wantRefusedStart(t, c.dir, o, tt.status, tt.part)
			gone()
		})
	}
}

// The other flags are a second wall, or for other purposes than the fence: without
// one of them nothing is refused, and what it is there for holds by another's work.
func TestFlagsOfPodmanThatAreNotAlone(t *testing.T) {
	const look = `cat /proc/self/status; echo ---; env; echo ---
		for try in 'unshare -U true' 'echo x >/proc/sys/kernel/core_pattern' 'echo x >/proc/sysrq-trigger' 'curl -s --max-time 3 --noproxy "*" http://` + originAddr + `/'; do
			sh -c "$try" 2>/dev/null && echo "worked: $try"
		done; true`
	for _, tt := range []struct{ name, script, by string }{
		{"more capabilities", without("--cap-drop=all"), "the drop empties all sets, and looks"},
		{"started as another user", instead("0:0", "1000:1000"), "podman gives that one the same rights, and the drop empties all sets"},
		{"no system call filter of podman's", also("--security-opt seccomp=unconfined"), "aisb's own filter doesn't need it"},
		{"nothing of /proc and /sys masked", also("--security-opt unmask=ALL"), "a uid without capabilities can write to none of it"},
		{"variables of the image and the host", without("--unsetenv-all") + "; " + also("--env LEAK=1 --env http_proxy=http://127.0.0.1:1"), "the command's environment is what aisb sends"},
		{"proxies of the host", without("--http-proxy=false"), "the same, and podman gets no proxy variables"},
		{"nothing changed", ":", "the control of this table"},
		{"core files", instead("core=1:1", "core=-1:-1"), "the entrypoint limits them itself"},
		{"another directory to start in", `[ "$a" = / ] && a=/tmp`, "the entrypoint changes it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := call{dir: project(t), env: append(wrapped(t, tt.script), "LEAK=2")}
			o := c.aisb(t, allowed, sh(look)...)
			o.wantStatus(t, 0)
			status, rest, _ := strings.Cut(o.stdout, "---\n")
			wantNoRights(t, tt.by, status)
			wantNot(t, tt.by, rest, "LEAK", "127.0.0.1:1", "worked")
		})
	}
}
