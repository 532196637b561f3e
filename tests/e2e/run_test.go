//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runTimeout bounds one run of aisb in these tests.
const runTimeout = 2 * time.Minute

// project makes a directory of the user's to run in.
func project(t *testing.T) string {
	t.Helper()
	dir, err := agent.makeDir("e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// call is one start of aisb, or of any program, as the user.
type call struct {
	dir   string
	env   []string // beside the base
	stdin string
	bin   string    // the aisb under test when empty
	enter []string  // what root does first, as nsenter(1) does: it starts the rest
	as    *hostUser // agent when nil
}

// outcome is how it ended.
type outcome struct {
	status         int
	stdout, stderr string
	took           time.Duration
}

// command prepares a call as the user.
func (c call) command(ctx context.Context, args ...string) *exec.Cmd {
	bin := c.bin
	if bin == "" {
		bin = binary
	}
	who := c.as
	if who == nil {
		who = agent
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	if len(c.enter) > 0 {
		// All of them become the next one, so that the process is aisb's in the end.
		args = slices.Concat(c.enter[1:], []string{"setpriv", "--reuid", strconv.Itoa(who.uid),
			"--regid", strconv.Itoa(who.gid), "--clear-groups", "--", bin}, args)
		bin = c.enter[0]
	} else {
		attr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid), Groups: who.groups}
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{
		"HOME=" + who.home, "USER=" + who.name, "LOGNAME=" + who.name,
		"XDG_RUNTIME_DIR=" + who.runtime,
		"XDG_STATE_HOME=" + filepath.Join(xdg, "state"), "XDG_CACHE_HOME=" + filepath.Join(xdg, "cache"),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"AISB_BASE_IMAGE=" + os.Getenv("AISB_BASE_IMAGE"),
	}, c.env...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// do runs it to its end.
func (c call) do(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := c.command(ctx, args...)
	cmd.Stdin = strings.NewReader(c.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %q: %v\n%s", args, err, stderr.String())
	}
	if ctx.Err() != nil {
		t.Fatalf("%q did not end within %v\n%s%s", args, runTimeout, stdout.String(), stderr.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(begin)}
}

// aisb runs `aisb run --image IMAGE FLAGS -- COMMAND` in a new project.
func aisb(t *testing.T, flags []string, command ...string) outcome {
	t.Helper()
	return call{dir: project(t)}.aisb(t, flags, command...)
}

func (c call) aisb(t *testing.T, flags []string, command ...string) outcome {
	t.Helper()
	return c.do(t, runArgs(flags, command...)...)
}

// runArgs are the arguments of a run in the test image with the fake
// internet's resolver.
func runArgs(flags []string, command ...string) []string {
	args := []string{"run", "--image", testImage, "--ephemeral-home"}
	if !slices.Contains(flags, "--net") {
		args = append(args, "--resolver", routerAddr, "--net-backend", backend)
	}
	args = append(args, flags...)
	return append(append(args, "--"), command...)
}

// gateAddr is where the gate is as seen from a sandbox of these tests.
func gateAddr() string {
	if backend == "inner" {
		return "127.0.0.1"
	}
	return "169.254.1.3"
}

// sh runs a shell script inside.
func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// asUser runs a program of the host as the user and returns its output.
func asUser(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	o := call{dir: agent.home, bin: path}.do(t, args...)
	if o.status != 0 {
		t.Fatalf("%s %q: status %d: %s", name, args, o.status, o.stderr)
	}
	return o.stdout
}

// wantStatus fails the test unless the status is want.
func (o outcome) wantStatus(t *testing.T, want int) {
	t.Helper()
	if o.status != want {
		t.Fatalf("status %d, want %d\nstdout: %s\nstderr: %s", o.status, want, o.stdout, o.stderr)
	}
}

// wantNot fails the test if text holds any of parts.
func wantNot(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%s has %q:\n%s", what, p, text)
		}
	}
}

// wantIn fails the test unless text holds each of parts.
func wantIn(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// write puts a file of the user's into dir.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	return path
}
