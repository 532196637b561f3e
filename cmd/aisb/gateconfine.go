package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/confine"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// How much of what this process can lock itself up by has to be had.
const (
	confineAuto    = "auto"    // what the kernel has
	confineRequire = "require" // all of it
	confineOff     = "off"     // nothing, for debuggers
)

// confineOptions is the flag that says how the gate's process locks itself up.
type confineOptions struct{ mode string }

func (o *confineOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.mode, "confine", confineAuto, "lock up by `MODE`: require, off")
}

func (o *confineOptions) check() error {
	if slices.Contains([]string{confineAuto, confineRequire, confineOff}, o.mode) {
		return nil
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("--confine %q is not auto, require or off", o.mode),
		hint: "leave it out: auto locks up by what this kernel has"}
}

// needs are what the gate reads again while it runs.
func (o *gateOptions) needs(servers []resolve.Server) confine.Needs {
	n := confine.Needs{Self: o.metrics != ""}
	n.Files, n.Dirs, n.Roots = resolve.Reads(servers)
	for _, name := range slices.Concat(o.allowFile, o.denyFile, []string{o.tokenFile}) {
		// What is no plain file is not read again.
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			n.Files = append(n.Files, name)
		}
	}
	return n
}

// lockUp locks this process up, which has opened all that it needs and read nothing
// of a client's yet. It returns what stands, for the log.
func (o *gateOptions) lockUp(u *ui, servers []resolve.Server) (string, error) {
	if o.confine.mode == confineOff {
		u.warnf("the gate is not locked up: a fault in it has all that you have")
		return confine.None, nil
	}
	fail := func(err error, hint string) (string, error) {
		return "", &exitError{code: 1, err: fmt.Errorf("lock the gate up: %w", err), hint: hint}
	}
	if err := errors.Join(confine.NoCore(), confine.CloseInherited(syscall.Stderr)); err != nil {
		return fail(err, "")
	}
	needs := o.needs(servers)
	o.sayWide(u, needs)
	state, err := confine.Apply(needs)
	switch {
	case err != nil:
		return fail(err, "'--confine off' runs it without")
	case len(state.Lacks) > 0 && o.confine.mode == confineRequire:
		return fail(errors.New(strings.Join(state.Lacks, "; ")), "'aisb doctor' says what this kernel has; without --confine the gate takes what there is")
	}
	for _, why := range state.Lacks {
		u.warnf("the gate is less locked up than it could be: %s", why)
	}
	return state.String(), nil
}

// sayWide says when all of the user's files stay readable, for a file among them.
func (o *gateOptions) sayWide(u *ui, n confine.Needs) {
	dirs, err := n.Readable()
	home, homeErr := filepath.EvalSymlinks(os.Getenv("HOME"))
	if err != nil || homeErr != nil {
		return
	}
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, home); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			u.notef("all of %s stays readable to the gate, since a file that it reads again is there", dir)
			u.hintf("put rules and tokens into a directory of their own")
			return
		}
	}
}

// moved hints at why a file can't be read again that could be before.
func (s *service) moved(err error) {
	if s.confined != confine.None && errors.Is(err, fs.ErrPermission) {
		s.u.hintf("the gate reads again only below the directories where its files were at its start; start it anew")
	}
}
