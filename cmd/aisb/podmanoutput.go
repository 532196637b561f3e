package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// podmanCommand prepares a call that a signal ends together with its children: a
// signal to podman alone leaves what a build is running to go on.
func podmanCommand(ctx context.Context, p podman.Podman, args []string) *exec.Cmd {
	cmd := p.Command(ctx, args...)
	// The group is podman's own, see podman.Command.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// podmanOutput runs podman and returns its standard output; its errors hold the last
// line of what it said.
func podmanOutput(ctx context.Context, p podman.Podman, args []string) ([]byte, error) {
	cmd := podmanCommand(ctx, p, args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if said := saidLast(errs.String()); said != "" {
		err = fmt.Errorf("%s (%w)", said, err)
	}
	return nil, &exitError{code: exitPodman, err: fmt.Errorf("podman: %w", err), hint: podman.Hint(errs.String())}
}

// saidLast is the line of podman's standard error that says what went wrong.
func saidLast(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Error: ") || line != "" && !strings.HasPrefix(last, "Error: ") {
			last = line
		}
	}
	return strings.TrimPrefix(last, "Error: ")
}
