package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate/confine"
	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/doctor"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

func newDoctorCmd(u *ui) *cobra.Command {
	var o imageOptions
	var a attackOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say whether a run would work here, and what to do if not",
		Long: `doctor looks at this machine and at the current directory, and starts no
sandbox. A line a check:

  ok       seen to be as it must be
  note     stops no run, but is weaker, slower or other than you may expect
  FAIL     a run would fail; the line below says what to do
  unknown  could not be tried, or is not tested: never taken for ok

The status is 1 when a run would fail. docs/doctor.md lists the checks.

With --attack it starts a sandbox and tries each known way out of it, from
inside. The status is 1 when one got out; docs/attacks.md says how to read it.`,
		Example: `  aisb doctor
  aisb doctor --attack -q
  aisb doctor --json | jq -r '.checks[] | select(.state == "fail") | .id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, wrong := configure(u, cmd.Flags())
			if a.attack {
				if wrong != nil {
					return wrong
				}
				a.imageOptions = o
				return settings.blame(a.run(cmd.Context(), u, asJSON))
			}
			if err := a.misplaced(cmd.Flags()); err != nil {
				return err
			}
			spec, err := o.spec()
			if err != nil {
				return settings.blame(err)
			}
			host := doctorHost(u, spec)
			if wrong != nil {
				host.Settings = doctor.Settings{Err: wrong.Error(), Hint: strings.ReplaceAll(hintOf(wrong), "\n", "; ")}
			}
			report := doctor.Examine(doctor.Collect(cmd.Context(), host))
			if err := printReport(u.Out, report, asJSON); err != nil {
				return err
			}
			if report.Verdict == doctor.Fails {
				return &exitError{code: 1} // all is said
			}
			return nil
		},
	}
	o.flags(cmd.Flags())
	a.flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printReport(w io.Writer, r doctor.Report, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	return printLines(w, r.String())
}

// doctorHost is what openHost and run find out, without ending at the first
// thing that is wrong.
func doctorHost(u *ui, spec image.Spec) doctor.Host {
	uid := os.Getuid()
	h := doctor.Host{
		UID: uid, Getenv: os.Getenv, Home: os.Getenv("HOME"), Cgo: builtWithCgo,
		PastaOptions: sandbox.PastaOptions(), Image: doctor.Image{Harness: spec.Harness.Name},
	}
	if err := proc.CanEnclose(); err != nil {
		h.EncloseErr = err.Error()
	}
	abi, err := confine.Landlock()
	if h.Landlock = abi; err != nil {
		h.LandlockErr = err.Error()
	}
	if dir, err := os.Getwd(); err == nil {
		h.Dir = dir
	}
	run := newRunCmd(u).Flags()
	h.Upstream = run.Lookup("upstream-proxy") != nil
	_, h.Limits = podman.Limits{Pids: run.Lookup("pids-limit").DefValue}.Enforceable(podman.Controllers("/", hasSystemd(), uid))
	core, err := coreLimit()
	if h.Core = core; err != nil {
		h.CoreErr = err.Error()
	}
	doctorPodman(&h, uid)
	state, err := sandbox.StateDir(os.Getenv)
	if err != nil {
		h.Image.Err = err.Error()
		return h
	}
	h.State = state
	known, built, err := recordsIn(state).Find(spec)
	switch {
	case err != nil:
		h.Image.Err = err.Error()
	case built:
		h.Image.Tag = known.Tag()
	}
	return h
}

// doctorPodman finds podman where a run would, and the directories.
func doctorPodman(h *doctor.Host, uid int) {
	all := os.Getenv("PATH")
	err := os.Setenv("PATH", hostPath(all, maybeProject(os.Getwd, h.Home)))
	path, notFound := exec.LookPath("podman")
	h.Podman.Path = path
	if notFound != nil {
		h.Hidden = elsewhere(all)
	}
	paths, pathsErr := sandbox.FindPaths(os.Getenv, uid)
	if pathsErr != nil {
		h.RuntimeDirErr = pathsErr.Error()
		h.Cache = filepath.Join(h.Home, ".cache", "aisb")
		if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
			h.Cache = filepath.Join(dir, "aisb")
		}
	} else {
		h.Cache, h.RuntimeDir = paths.Cache, filepath.Dir(paths.Runtime)
	}
	if err = errors.Join(err, pathsErr); err == nil && uid != 0 {
		var conf podman.Conf
		if conf, err = podman.EnsureConf(paths.Runtime, hasSystemd()); err == nil && notFound == nil {
			h.Podman, err = podman.Find(conf, os.Environ())
		}
	}
	if err != nil {
		h.ConfErr = err.Error()
	}
}

// elsewhere is a directory of PATH with a podman that aisb does not start.
func elsewhere(path string) string {
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, "podman")); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir
		}
	}
	return ""
}
