package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

type hostT struct {
	Podman podman.Podman
	Paths  struct{ State string }
}

func openHost() (h hostT, err error) {
	conf, err := podman.EnsureConf(os.Getenv("XDG_RUNTIME_DIR")+"/aisb", false)
	if err != nil {
		return h, err
	}
	h.Podman, err = podman.Find(conf, os.Environ())
	h.Paths.State = os.Getenv("HOME") + "/.local/state/aisb"
	return h, err
}
func checkUser(uid int) error { return nil }
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs { return check }

func main() {
	u := &ui{Out: os.Stdout, Err: os.Stderr}
	c := newImageCmd(u)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(context.Background()); err != nil {
		var e *exitError
		errors.As(err, &e)
		os.Exit(u.fail(err))
	}
}
