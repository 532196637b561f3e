package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// gitPatience bounds what git takes to read its configuration: an agent may have
// left a pipe in the place of a file.
const gitPatience = 10 * time.Second

// gitIdentity is who git says the user is, as settings for the git inside.
type gitIdentity struct {
	config [][2]string
	env    []string
}

// identityVars win over every configuration (git(1)), so they pass as they are.
var identityVars = []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

// hostIdentity asks the host's git who the user is in the current directory, where
// the user's configuration may say something else than elsewhere (includeIf in
// git-config(1)).
//
// An agent may have written the repository's own configuration. To read one
// setting git runs nothing that a configuration names: no pager without a
// terminal, no hook, no filter, no fsmonitor. What the repository itself says of
// the user is not passed: the git inside reads it, and it would only hide a lie.
func hostIdentity(ctx context.Context, writable []mounts.Mount) (gitIdentity, error) {
	git, err := findOutside("git", os.Getenv("PATH"), writable)
	if err != nil {
		return gitIdentity{}, &exitError{code: exitUsage, err: fmt.Errorf("--git-identity: %w", err),
			hint: "name it yourself: " + identityByHand}
	}
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, git, "config", "--show-scope", "-z", "--get-regexp", `^(user|author|committer)\.(name|email)$`)
	cmd.Env = identityEnv(os.LookupEnv, hostPath(os.Getenv("PATH"), writable))
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && errs.Len() == 0 {
		err = nil // there is none (git-config(1))
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("git did not answer within %v", gitPatience)
	} else if err != nil && errs.Len() > 0 {
		err = errors.New("git config: " + strings.TrimSpace(errs.String()))
	}
	if err != nil {
		return gitIdentity{}, &exitError{code: exitUsage, err: fmt.Errorf("--git-identity: %w", err),
			hint: "see what is wrong with: git config --list\nor name it yourself: " + identityByHand}
	}
	return identityOf(string(out), os.LookupEnv)
}

const identityByHand = "-e GIT_AUTHOR_NAME -e GIT_AUTHOR_EMAIL -e GIT_COMMITTER_NAME -e GIT_COMMITTER_EMAIL"

// identityEnv is git's environment: what says where the user's configuration is,
// and nothing that leads to another repository.
func identityEnv(lookup func(string) (string, bool), path string) []string {
	env := []string{"PATH=" + path, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1"}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"} {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// identityOf reads what git config -z --show-scope has printed: scope, NUL, key,
// newline, value, NUL. The last of a key counts.
func identityOf(out string, lookup func(string) (string, bool)) (gitIdentity, error) {
	type setting struct{ scope, value string }
	found := map[string]setting{}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, _ := strings.Cut(fields[i+1], "\n")
		found[key] = setting{fields[i], value}
	}
	var id gitIdentity
	known := map[string]bool{}
	for _, key := range []string{"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email"} {
		s, ok := found[key]
		if !ok || s.value == "" {
			continue
		}
		_, what, _ := strings.Cut(key, ".")
		known[what] = true
		if s.scope != "local" && s.scope != "worktree" {
			id.config = append(id.config, [2]string{key, s.value})
		}
	}
	for _, name := range identityVars {
		if value, ok := lookup(name); ok && value != "" {
			id.env = append(id.env, name+"="+value)
			known[strings.ToLower(name[strings.LastIndexByte(name, '_')+1:])] = true
		}
	}
	// What git takes when nothing else names an address (git-commit-tree(1)).
	if mail, ok := lookup("EMAIL"); ok && mail != "" && !known["email"] {
		id.config = append(id.config, [2]string{"user.email", mail})
		known["email"] = true
	}
	var missing, hints []string
	for _, what := range []struct{ key, word, hint string }{
		{"name", "name", `git config --global user.name "Your Name"`}, {"email", "mail address", "git config --global user.email you@example.com"},
	} {
		if !known[what.key] {
			missing, hints = append(missing, "no "+what.word), append(hints, what.hint)
		}
	}
	if missing != nil {
		return gitIdentity{}, &exitError{code: exitUsage, err: fmt.Errorf("--git-identity: git on this machine has %s of yours", strings.Join(missing, " and ")),
			hint: "set it: " + strings.Join(hints, "\nset it: ")}
	}
	return id, nil
}

// findOutside looks a program up in PATH where no sandbox can have put it.
func findOutside(name, path string, writable []mounts.Mount) (string, error) {
	for _, dir := range filepath.SplitList(hostPath(path, writable)) {
		file := filepath.Join(dir, name)
		real, err := filepath.EvalSymlinks(file)
		if err != nil || inside(real, writable) {
			continue
		}
		if found, err := exec.LookPath(file); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no %s in PATH", name)
}

// readPlain reads a small plain file: an agent may have left a pipe in its place.
func readPlain(name string, most int64) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is no plain file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err
}
