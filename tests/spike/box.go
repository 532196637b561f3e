//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// Paths and addresses of the trials.
const (
	entryPath = "/usr/libexec/" + entryName
	loopback  = "169.254.1.3" // what pasta maps to the host's 127.0.0.1; podman has .1 and .2
	dnsAddr   = "169.254.1.1" // podman's --dns-forward
	guestAddr = "169.254.1.2" // podman's own --map-guest-addr
)

// pastaNet is the network of a sandbox.
const pastaNet = "pasta:--map-host-loopback," + loopback +
	",--map-guest-addr,none,-t,none,-u,none,-T,none,-U,none,--no-map-gw"

// environment is what all trials share.
type environment struct {
	image string
	self  string // this binary
	dir   string // scratch
	conf  string // the closed configuration of podman
}

func newEnvironment(image string) (environment, error) {
	self, err := os.Executable()
	if err != nil {
		return environment{}, err
	}
	dir, err := os.MkdirTemp("", "aisb-spike-")
	if err != nil {
		return environment{}, err
	}
	e := environment{image: image, self: self, dir: dir, conf: filepath.Join(dir, "conf")}
	err = errors.Join(
		os.Chmod(dir, 0o755),
		os.MkdirAll(e.conf+"/hooks.d", 0o755),
		os.WriteFile(e.conf+"/containers.conf", []byte("[engine]\nevents_logger = \"none\"\n"), 0o644),
		os.WriteFile(e.conf+"/mounts.conf", nil, 0o644),
	)
	return e, err
}

func (e environment) remove() { os.RemoveAll(e.dir) }

// closed is podman's environment and global flags with nothing of the user's or
// the system's configuration in it, but for the storage.
func (e environment) closed() (env, global []string) {
	env = []string{"CONTAINERS_CONF=" + e.conf + "/containers.conf"}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains([]string{"PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"}, name) {
			env = append(env, kv)
		}
	}
	return env, []string{
		"--remote=false", "--default-mounts-file=" + e.conf + "/mounts.conf", "--hooks-dir=" + e.conf + "/hooks.d",
	}
}

// sandboxFlags are podman's flags for a sandbox, but for its name and network.
func sandboxFlags() []string {
	return []string{
		"--pull=never", "--log-driver=none", "--sig-proxy=false", "--http-proxy=false", "--image-volume=ignore",
		"--no-healthcheck", "--unsetenv-all", "--no-hosts",
		"--userns=keep-id:uid=1000,gid=1000", "--user", "0:0",
		"--cap-drop=all", "--cap-add=NET_ADMIN", "--cap-add=SETUID", "--cap-add=SETGID", "--cap-add=SETPCAP",
		"--security-opt=no-new-privileges", "--security-opt=label=disable", "--read-only", "--read-only-tmpfs=true",
		"--ulimit", "core=1:1",
	}
}

// plan is a container to start with the agent of entry.go as its first process.
type plan struct {
	flags   []string // nil: those of a sandbox
	extra   []string
	network string   // empty: pastaNet
	env     []string // podman's whole environment; nil: the closed one
	global  []string
}

// box is a running container, and the line to the agent in it.
type box struct {
	name string
	pid  int // of the agent, on the host
	conn *fdmsg.Conn
	cmd  *exec.Cmd
	err  bytes.Buffer // podman's own words
}

// argv is podman's whole command line for the plan.
func (p plan) argv(e environment, name string) []string {
	argv := append([]string{"podman"}, p.global...)
	argv = append(argv, "run", "--rm", "--name", name, "--preserve-fds=1")
	argv = append(argv, p.flags...)
	argv = append(argv, "--network", p.network,
		"--mount", "type=bind,source="+e.self+",target="+entryPath+",ro=true")
	argv = append(argv, p.extra...)
	return append(argv, "--workdir", "/", "--entrypoint", `["`+entryPath+`"]`, e.image)
}

func (p plan) complete(e environment) plan {
	if p.flags == nil {
		p.flags = sandboxFlags()
	}
	if p.network == "" {
		p.network = pastaNet
	}
	if p.env == nil {
		p.env, p.global = e.closed()
	}
	return p
}

// start runs a container and waits for its agent's hello.
func (e environment) start(p plan) (*box, []string, error) {
	b := &box{name: fmt.Sprintf("aisb-spike-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)}
	argv := p.complete(e).argv(e, b.name)
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		return nil, argv, err
	}
	b.conn = conn
	b.cmd = exec.Command(argv[0], argv[1:]...)
	b.cmd.Env = p.complete(e).env
	b.cmd.ExtraFiles = []*os.File{theirs}
	b.cmd.Stdout, b.cmd.Stderr = &b.err, &b.err
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C is not podman's
	err = b.cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, argv, err
	}
	var hello answer
	_ = conn.SetReadDeadline(time.Now().Add(60 * time.Second)) // a first run copies layers
	msg, err := conn.Recv(&hello)
	if err != nil {
		conn.Close()
		_ = b.cmd.Wait()
		return nil, argv, fmt.Errorf("%w; podman ended with %d and said: %s",
			err, b.cmd.ProcessState.ExitCode(), strings.TrimSpace(b.err.String()))
	}
	b.pid = msg.PID
	return b, argv, nil
}

// start notes the command and ends the container with the trial.
func (t *trial) start(p plan) (*box, error) {
	b, argv, err := t.env.start(p)
	t.did(argv)
	if err == nil {
		t.boxes = append(t.boxes, b)
	}
	return b, err
}

// ask has the agent do something.
func (b *box) ask(q question) (answer, []*os.File, error) {
	var a answer
	if err := b.conn.Send(q); err != nil {
		return a, nil, err
	}
	_ = b.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	msg, err := b.conn.Recv(&a)
	if err != nil {
		return a, nil, err
	}
	if a.Err != "" {
		return a, msg.Files, errors.New(a.Err)
	}
	return a, msg.Files, nil
}

// sh runs a script in the box and notes it with its output.
func (t *trial) sh(b *box, script string) (answer, error) {
	a, _, err := b.ask(question{Op: opRun, Argv: []string{"/bin/sh", "-c", script}})
	t.lines = append(t.lines, "  in the container: "+script)
	t.saw("%s", a.Out)
	return a, err
}

// stop lets go of the container and waits for its end.
func (b *box) stop() error {
	b.conn.Close()
	return b.cmd.Wait()
}

func (t *trial) close() {
	for _, b := range t.boxes {
		if b.cmd.ProcessState == nil {
			_ = b.stop() // the agent ends with 7, see entryMain
		}
	}
}

// podman runs another podman command under the closed configuration and notes
// it. It returns all its output and its status.
func (t *trial) podman(args ...string) (string, int, error) {
	env, global := t.env.closed()
	return t.command(env, append(append([]string{"podman"}, global...), args...))
}

func (t *trial) command(env, argv []string) (string, int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t.did(argv)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, err
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode(), nil
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
