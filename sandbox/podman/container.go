// Package podman builds podman's command line and configuration as data and
// runs podman(1) under them, so that nothing of the user's or the system's
// containers.conf, mounts.conf, hooks or environment adds to a sandbox.
package podman

import (
	"fmt"
	"strconv"
	"strings"
)

// Label marks the containers of aisb, with the name of the run. A container whose label
// says another name is somebody's copy of one.
const Label = "dev.aisb.container"

// Container is a sandbox as podman sees it. RunArgs lowers it.
type Container struct {
	Name     string
	Image    string // full reference or ID; never pulled
	Hostname string

	// Entrypoint is the path, in the container, of the first process. It gets
	// no arguments: everything reaches it by descriptor.
	Entrypoint string
	// Descriptors is how many descriptors from 3 on are passed in.
	Descriptors int

	Network string // value of --network
	Mounts  []Mount
	Tmpfs   []Tmpfs
	Sysctls []string // NAME=VALUE, of the container's own namespaces
	CapAdd  []string // without CAP_; all others are dropped

	Limits Limits

	// Extra are the user's own arguments (AISB_EXTRA_ARGS), put last.
	Extra []string
}

// Mount is a bind mount or a named volume.
type Mount struct {
	Source   string // absolute path on the host, or a volume's name
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool
}

// Tmpfs is a mount that lives in memory.
type Tmpfs struct {
	Target string
	Size   string // as podman takes it: "1g"
	Mode   string // octal
	Exec   bool
}

// Limits are what podman is asked to enforce; an empty field asks nothing.
type Limits struct {
	Pids   string
	Memory string
	CPUs   string
	Shm    string
	Core   string // size of core files, see CoreLimit; empty is 1
}

// RunArgs is the argument vector after "podman". The order is fixed.
func (c Container) RunArgs() []string {
	args := []string{
		"run", "--rm", "--name", c.Name, "--label=" + Label + "=" + c.Name,
		// A missing image is an error here, not a download.
		"--pull=never",
		// The container's lifeline and words go over the descriptor; podman
		// relays nothing and keeps nothing.
		"--log-driver=none", "--sig-proxy=false", "--preserve-fds=" + strconv.Itoa(c.Descriptors),
		// What podman or the image would add by itself.
		"--http-proxy=false", "--image-volume=ignore", "--no-healthcheck", "--unsetenv-all", "--restart=no",
		"--no-hosts", "--hostname", c.Hostname,
		// Container root puts the fence up; uid 1000 in the container is the user.
		"--userns=keep-id:uid=1000,gid=1000", "--user", "0:0",
		"--cap-drop=all",
	}
	for _, name := range c.CapAdd {
		args = append(args, "--cap-add="+name)
	}
	args = append(args,
		"--security-opt=no-new-privileges",
		// Bind mounts of the user's files work under SELinux without giving
		// them another label, which would break the host's own access.
		"--security-opt=label=disable",
		// read-only-tmpfs keeps /dev, /dev/shm, /run, /tmp and /var/tmp writable.
		"--read-only", "--read-only-tmpfs=true",
		"--ulimit", c.Limits.core(),
		"--network", c.Network,
	)
	args = append(args, c.Limits.args()...)
	for _, s := range c.Sysctls {
		args = append(args, "--sysctl", s)
	}
	for _, t := range c.Tmpfs {
		args = append(args, "--tmpfs", t.arg())
	}
	for _, m := range c.Mounts {
		args = append(args, "--mount", m.arg())
	}
	args = append(args, "--workdir", "/", "--entrypoint", `["`+c.Entrypoint+`"]`)
	args = append(args, c.Extra...)
	return append(args, c.Image)
}

func (l Limits) args() []string {
	var args []string
	for _, f := range []struct{ flag, value string }{
		{"--pids-limit", l.Pids}, {"--memory", l.Memory}, {"--cpus", l.CPUs}, {"--shm-size", l.Shm},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	return args
}

// arg is the value of --mount. podman reads it as CSV, so every field is
// quoted when it holds a comma or a quote.
func (m Mount) arg() string {
	fields := []string{"type=bind", "source=" + m.Source, "target=" + m.Target}
	if m.Volume {
		fields[0] = "type=volume"
	} else {
		// private: a mount made later on the host or inside stays there.
		fields = append(fields, "bind-propagation=rprivate")
	}
	if m.ReadOnly {
		fields = append(fields, "ro=true")
	}
	for i, f := range fields {
		fields[i] = csvField(f)
	}
	return strings.Join(fields, ",")
}

func csvField(s string) string {
	if !strings.ContainsAny(s, ",\"\n\r") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

func (t Tmpfs) arg() string {
	exec := "noexec"
	if t.Exec {
		exec = "exec"
	}
	return fmt.Sprintf("%s:rw,nosuid,nodev,%s,size=%s,mode=%s", t.Target, exec, t.Size, t.Mode)
}
