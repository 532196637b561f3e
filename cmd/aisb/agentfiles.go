package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// written are mounts with the project as one that can be written to: when it is
// read-only this time, an earlier run may have left in it what it liked.
func written(ms []mounts.Mount) []mounts.Mount {
	list := slices.Clone(ms)
	for i := range list {
		list[i].ReadOnly = list[i].ReadOnly && list[i].Target != mounts.Project
	}
	return list
}

// agentWrites reports whether the sandbox can write to the file at name, or put
// another in its place: then it says what an agent wants, from the next run on. Each
// step of the way counts, not only its end: a directory of the project's on it can be a link
// to anywhere by the time that it is opened.
func agentWrites(name string, writable []mounts.Mount) bool {
	path, err := filepath.Abs(name)
	if err != nil {
		return true
	}
	const most = 40 // links, as the kernel follows (path_resolution(7))
	real, links := "/", 0
	for rest := path; rest != ""; {
		var step string
		step, rest, _ = strings.Cut(rest, "/")
		switch step {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, step)
		if inside(next, writable) {
			return true
		}
		to, err := os.Readlink(next)
		if err != nil { // no link, or nothing there
			real = next
			continue
		}
		if links++; links > most {
			return true
		}
		if filepath.IsAbs(to) {
			real = "/"
		}
		rest = to + "/" + rest
	}
	return false
}

// readEnvFile reads the variables in a file. In one that an agent may have written
// nothing counts that would get it more than the file itself holds: no link that
// leads out of where it can write, no value of the host's environment.
func readEnvFile(name string, writable []mounts.Mount) ([]environ.Var, error) {
	theirs := agentWrites(name, writable)
	data, err := readJudged(name, func(real string, info os.FileInfo) error {
		switch {
		case !theirs:
			return nil
		case !inside(real, writable):
			return &exitError{code: exitUsage, err: fmt.Errorf("--env-file %q is not read: it is a link out of what the sandbox can write to, and an agent can have made it", name),
				hint: "if you mean it, name what it leads to: " + real}
		case !info.Mode().IsRegular():
			return errors.New("it is not a regular file") // a FIFO's writer may never come
		}
		return nil
	})
	if refused, ok := errors.AsType[*exitError](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("read --env-file %q: %w", name, err),
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

// readJudged reads the file at name if judge allows it, which is told where it really
// lies. What is judged is what is read, though an agent at work there may exchange the
// file for a link at any moment. It waits for nobody before judge has spoken.
func readJudged(name string, judge func(real string, info os.FileInfo) error) ([]byte, error) {
	f, err := os.OpenFile(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bare(err)
	}
	opened := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	real, err := os.Readlink(opened)
	if err != nil {
		return nil, bare(err)
	}
	if err := judge(real, info); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(opened)
	return data, bare(err)
}

// bare is the reason of a file system error, for messages that name the file
// themselves.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// writableBy are the places where running sandboxes can write to, as far as they
// tell: one of an older aisb tells of the project alone.
func writableBy(running []control.Info) []mounts.Mount {
	var list []mounts.Mount
	for _, r := range running {
		for _, source := range append(r.Writable, r.Project) {
			if source != "" {
				list = append(list, mounts.Mount{Source: string(source)})
			}
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
