//go:build linux

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// build is a release in the making; what it makes goes to stage first.
type build struct {
	src        source
	top, stage string
}

func (b build) binary(arch string) string { return filepath.Join(b.stage, arch, "aisb") }

// settings change what the Go tool builds, and so are the same everywhere. Of the
// user's own only where things are kept and fetched from stays. A month begins at another
// time elsewhere.
var settings = []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "TZ=UTC"}

var unset = []string{"GOOS", "GOARCH", "GOEXPERIMENT", "GOFIPS140", "GODEBUG", "GOCACHEPROG", "GO111MODULE"}

// environ is an environment for the Go tool, with more in it.
func environ(all []string, more ...string) []string {
	var env []string
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		set := slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		if !set && !slices.Contains(unset, name) {
			env = append(env, v)
		}
	}
	return append(append(env, settings...), more...)
}

// epoch is the commit's time for programs that write one into what they make.
func (b build) epoch() string { return fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.src.time.Unix()) }

// command is a program in the tree, with environ's environment.
func (b build) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.top
	cmd.Env = environ(os.Environ(), env...)
	return cmd
}

// output runs a command; what it says on stderr is for when it fails.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, exit.Stderr, out)
	}
	return out, err
}

// goTool is the Go tool that runs this one.
func goTool() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}

// compile builds the binary of one architecture. The commit is linked in rather than
// taken from the checkout by the Go tool, which sees none in a worktree of git's and
// names the version after the tags that a clone happens to have.
func (b build) compile(ctx context.Context, arch string) error {
	linked := fmt.Sprintf("-s -w -X main.release=%s -X main.revision=%s", b.src.name, b.src.revision())
	_, err := output(b.command(ctx, []string{"GOOS=linux", "GOARCH=" + arch}, goTool(),
		"build", "-trimpath", "-buildvcs=false", "-ldflags", linked, "-o", b.binary(arch), "./cmd/aisb"))
	return err
}

// revision is the commit as 'aisb version' shows it.
func (s source) revision() string {
	if s.dirty {
		return s.commit + "+dirty"
	}
	return s.commit
}

// check reads back how a binary was built: the Go tool has files of settings of its
// own, and a toolchain of its own choice.
func (b build) check(arch, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	if info.GoVersion != runtime.Version() {
		return fmt.Errorf("built by %s, not by %s", info.GoVersion, runtime.Version())
	}
	got := map[string]string{}
	for _, s := range info.Settings {
		got[s.Key] = s.Value
	}
	level := map[string]string{"amd64": "GOAMD64=v1", "arm64": "GOARM64=v8.0"}[arch]
	for _, want := range []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0", "-trimpath=true", "-compiler=gc", "-buildmode=exe", level} {
		key, value, _ := strings.Cut(want, "=")
		if got[key] != value {
			return fmt.Errorf("built with %s=%s, not %s", key, got[key], want)
		}
		delete(got, key)
	}
	for key, value := range got {
		if key != "DefaultGODEBUG" { // go.mod's
			return fmt.Errorf("built with %s=%s, which this doesn't know", key, value)
		}
	}
	return nil
}

// common makes what is the same for every architecture, and says where it goes.
func (b build) common(ctx context.Context, archs []string) ([]file, error) {
	if !slices.Contains(archs, runtime.GOARCH) {
		return nil, fmt.Errorf("one of the architectures must be this machine's, %s: the completions are what its aisb prints", runtime.GOARCH)
	}
	for _, arch := range archs {
		if err := b.compile(ctx, arch); err != nil {
			return nil, err
		}
	}
	if err := b.completions(ctx); err != nil {
		return nil, err
	}
	if err := b.licenses(ctx, archs); err != nil {
		return nil, err
	}
	pages, err := b.pages(ctx)
	if err != nil {
		return nil, err
	}
	docs, err := filepath.Glob(filepath.Join(b.top, "docs/*.md"))
	if err != nil {
		return nil, err
	}
	return layout(b.top, b.stage, pages, docs), nil
}

// completions are what the binary itself prints.
func (b build) completions(ctx context.Context) error {
	for _, shell := range shells {
		out, err := output(exec.CommandContext(ctx, b.binary(runtime.GOARCH), "completion", shell.name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(b.stage, shell.file), out, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pages makes the manual pages, compressed, as distributions have them.
func (b build) pages(ctx context.Context) ([]string, error) {
	dir := filepath.Join(b.stage, "man")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	env := []string{"AISB_MAN_DIR=" + dir, b.epoch()} // they have the month
	_, err := output(b.command(ctx, env, goTool(), "test", "-count=1", "-run=^TestManPages$", "./cmd/aisb"))
	if err != nil {
		return nil, err
	}
	plain, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	if len(plain) == 0 {
		return nil, errors.New("no manual pages came of TestManPages")
	}
	var pages []string
	for _, name := range plain {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var small bytes.Buffer
		if err := compress(&small, text); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name+".gz", small.Bytes(), 0o600); err != nil {
			return nil, err
		}
		pages = append(pages, name+".gz")
	}
	return pages, nil
}
