package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/config"
	"github.com/aisb-dev/aisb/sandbox/trust"
)

// settings are what the flags of a call, the environment and the configuration
// files say, with where each value stands (docs/config.md). Nil says nothing.
type settings struct {
	config.Settings
	userFile string        // where the user's file would lie
	realFile string        // where it really lies, links followed; "" when there is none
	project  trust.Project // the project's file
	approval trust.Approval
	ignored  []config.Value // of the project's file, since nobody has approved it
}

// configure reads the configuration files and gives flags what stands in them. All
// commands that take flags of 'aisb run' call it, so that they mean the same.
func configure(u *ui, f *pflag.FlagSet) (*settings, error) {
	s, layers, err := readSettings(os.Getenv, os.Getuid())
	if err != nil {
		return nil, err
	}
	s.Settings = config.Merge(append(layers, environmentLayer(os.Getenv), flagLayer(f))...)
	if w := s.untrusted(); w != "" {
		u.warnf("%s", w)
	}
	return s, s.apply(f)
}

// configPath is where the user's file lies (XDG Base Directory Specification: a
// relative value is to be ignored).
func configPath(getenv func(string) string) (string, error) {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", &exitError{code: exitUsage, err: fmt.Errorf("HOME is %q, not an absolute path", home), hint: "set HOME to your home directory"}
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "aisb", "config.toml"), nil
}

// trustStore is where the approvals are kept.
func trustStore(getenv func(string) string, uid int) (trust.Store, error) {
	state, err := sandbox.StateDir(getenv)
	if err != nil {
		return trust.Store{}, &exitError{code: exitUsage, err: err, hint: "set HOME to your home directory"}
	}
	return trust.Store{Dir: filepath.Join(state, "trust"), UID: uid}, nil
}

// readSettings reads both files. Of a bad one nothing is applied: it is an error.
func readSettings(getenv func(string) string, uid int) (*settings, [][]config.Value, error) {
	s := &settings{}
	var err error
	if s.userFile, err = configPath(getenv); err != nil {
		return nil, nil, err
	}
	data, real, err := trust.ReadUser(s.userFile, uid)
	if err != nil {
		return nil, nil, fileError(err)
	}
	var user []config.Value
	if data != nil {
		s.realFile = real
		user, err = config.Parse(config.Source{From: config.UserFile, Name: s.userFile, Dir: filepath.Dir(s.userFile), Home: getenv("HOME"), Data: data})
		if err != nil {
			return nil, nil, fileError(err)
		}
	}
	project, err := s.readProject(getenv, uid)
	if err != nil {
		return nil, nil, err
	}
	return s, [][]config.Value{user, project}, nil
}

// readProject reads the project's file, and returns what of it counts.
func (s *settings) readProject(getenv func(string) string, uid int) ([]config.Value, error) {
	values, err := s.parseProject(getenv)
	if err != nil || values == nil {
		return nil, err
	}
	count, not := config.Narrowed(values)
	if len(not) == 0 {
		return values, nil
	}
	store, err := trustStore(getenv, uid)
	if err != nil {
		return nil, err
	}
	if s.approval, err = store.Find(s.project.Dir); err != nil {
		return nil, fileError(err)
	}
	if s.approval.Covers(s.project.Data) {
		return values, nil
	}
	s.ignored = not
	return count, nil
}

// parseProject reads the project's file, approved or not.
func (s *settings) parseProject(getenv func(string) string) ([]config.Value, error) {
	var err error
	if s.project, err = trust.ReadProject("."); err != nil {
		return nil, fileError(err)
	}
	values, err := config.Parse(config.Source{From: config.ProjectFile, Name: trust.ProjectName, Dir: s.project.Dir, Home: getenv("HOME"), Data: s.project.Data})
	if err != nil {
		return nil, fileError(err)
	}
	return values, nil
}

// untrusted is the warning of a project's file that nobody has approved, "" when
// all of it counts.
func (s *settings) untrusted() string {
	switch {
	case len(s.ignored) == 0:
		return ""
	case s.approval.SHA256 != "":
		return trust.ProjectName + " has changed since you approved it, so only its deny counts; see what is new: aisb config trust"
	}
	return trust.ProjectName + " is not approved, so only its deny counts; see what it would open: aisb config trust"
}

// fileError is the error of a configuration file: each wrong line by itself.
func fileError(err error) error {
	shown := someErrors(err)
	var hints []string
	for _, one := range shown {
		hint := ""
		if e, ok := errors.AsType[*config.Error](one); ok {
			hint = e.Hint
		}
		if p, ok := errors.AsType[*trust.Problem](one); ok {
			hint = p.Hint
		}
		if hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	return &exitError{code: exitConfig, err: shown, hint: strings.Join(hints, "\n")}
}

// environmentLayer are the variables that override the files.
func environmentLayer(getenv func(string) string) []config.Value {
	var values []config.Value
	for i := range config.Keys {
		k := &config.Keys[i]
		if k.Env == "" || getenv(k.Env) == "" {
			continue
		}
		values = append(values, config.Value{Key: k, Text: getenv(k.Env), Origin: config.Origin{From: config.Environment, Name: k.Env}})
	}
	return values
}

// flagLayer are the flags that were given.
func flagLayer(f *pflag.FlagSet) []config.Value {
	var values []config.Value
	f.Visit(func(flag *pflag.Flag) {
		k := config.ByFlag(flag.Name)
		if k == nil {
			return
		}
		texts := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			texts = list.GetSlice()
		}
		for _, text := range texts {
			values = append(values, config.Value{Key: k, Text: text, Origin: config.Origin{From: config.Flag, Name: "--" + flag.Name}})
		}
	})
	return values
}

// apply sets the flags that f has to what was merged.
func (s *settings) apply(f *pflag.FlagSet) error {
	for i := range config.Keys {
		k := &config.Keys[i]
		flag := f.Lookup(k.FlagName())
		last, ok := s.Last(k.Name)
		if flag == nil || !ok {
			continue
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			if err := list.Replace(s.Texts(k.Name)); err != nil {
				return s.blame(&exitError{code: exitUsage, err: fmt.Errorf("--%s %w", flag.Name, err)})
			}
			continue
		}
		if last.Origin.From == config.Flag {
			continue // it is set, and read again it could be another
		}
		if err := flag.Value.Set(last.Text); err != nil {
			wrong := badValue(flag, last.Text, err)
			wrong.hint += "'aisb config show' lists what is set"
			return s.blame(wrong)
		}
	}
	return nil
}

// lines are the rules of a list flag, and of files, with where each stands.
func (s *settings) lines(flag string, rules, files []string) ([]policy.Line, error) {
	var lines []policy.Line
	for i, text := range rules {
		lines = append(lines, policy.Line{Text: text, Origin: s.origin(flag, i)})
	}
	for i, name := range files {
		more, err := gateLines(nil, "", []string{name})
		if at := s.origin(flag+"-file", i); err != nil && !strings.HasPrefix(at, "--") {
			return nil, &exitError{code: exitConfig, err: fmt.Errorf("%s: %w", at, err), hint: "name a file that you can read, with one rule a line"}
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// origin says where the i-th value of a list flag stands.
func (s *settings) origin(flag string, i int) string {
	if s != nil {
		if k := config.ByFlag(flag); k != nil && i < len(s.Values(k.Name)) {
			return s.Values(k.Name)[i].Origin.String()
		}
	}
	return "--" + flag
}

// guard refuses a run whose sandbox could write the user's configuration file, be it
// there or not, which decides what the next one may do.
func (o runOptions) guard(p *prepared) error {
	if o.settings == nil || !agentWrites(o.settings.userFile, p.plan.Mounts) {
		return nil
	}
	if o.unsafeDir {
		p.warnings = append(p.warnings, fmt.Sprintf("the agent can write to %q, and so decide what the next run may do", o.settings.userFile))
		return nil
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("%q lies where the sandbox can write, and decides what the next run may do", o.settings.userFile),
		hint: "keep it outside of the project and the mounts, or pass --project-ro"}
}
