package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// agentWrites reports whether the sandbox can write to the file at name, or put
// another in its place: then it says what an agent wants, from the next run on.
func agentWrites(name string, writable []mounts.Mount) bool {
	path, err := filepath.Abs(name)
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil && inside(real, writable) {
		return true
	}
	for ; path != "/"; path = filepath.Dir(path) { // a link on the way may be the agent's
		if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil && inside(real, writable) {
			return true
		}
	}
	return false
}

// readEnvFile reads the variables in a file. In one that an agent may have written
// nothing counts that would get it more than the file itself holds: no link that
// leads out of where it can write, no value of the host's environment.
func readEnvFile(name string, writable []mounts.Mount) ([]environ.Var, error) {
	theirs := agentWrites(name, writable)
	if real, err := filepath.EvalSymlinks(name); err == nil && theirs {
		if real, err = filepath.Abs(real); err == nil && !inside(real, writable) {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("--env-file %q is not read: it is a link out of what the sandbox can write to, and an agent can have made it", name),
				hint: "if you mean it, name what it leads to: " + real}
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("read --env-file: %w", err),
			hint: "name a file that you can read, with one NAME=VALUE a line"}
	}
	var asked []string
	vars, err := environ.ParseFile(name, data, func(variable string) (string, bool) {
		asked = append(asked, variable)
		return os.LookupEnv(variable)
	})
	if err == nil && theirs && asked != nil {
		return nil, &exitError{code: exitUsage,
			err:  fmt.Errorf("--env-file %q would pass %s of your environment, and an agent can have written that", name, strings.Join(asked, ", ")),
			hint: "name it yourself: -e " + strings.Join(asked, " -e ") + "\nor keep the file where the sandbox can't write"}
	}
	return vars, err
}

// projects are where running sandboxes can write to, as far as they tell.
func projects(running []control.Info) []mounts.Mount {
	var list []mounts.Mount
	for _, r := range running {
		if r.Project != "" {
			list = append(list, mounts.Mount{Source: string(r.Project), Target: mounts.Project})
		}
	}
	return list
}

// ruleFileWarnings are about files of rules that decide over the next run and can be
// written by this one.
func ruleFileWarnings(names []string, writable []mounts.Mount) []string {
	var list []string
	for _, name := range names {
		if agentWrites(name, writable) {
			list = append(list, fmt.Sprintf("--allow-file %q: the agent can write to it, and so decide what the next run may reach; keep it outside of the project", name))
		}
	}
	return list
}
