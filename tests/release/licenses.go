//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal are files with conditions under which a binary may be passed on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents|copyright)([._-].*)?$`)

// licenses writes the notices of everything that is linked in: each license asks
// that a binary comes with them.
func (b build) licenses(ctx context.Context, archs []string) error {
	modules := map[string]string{} // "PATH VERSION" and its directory
	for _, arch := range archs {
		out, err := output(b.command(ctx, []string{"GOOS=linux", "GOARCH=" + arch}, goTool(),
			"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/aisb"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[name] = dir
			}
		}
	}
	root, err := output(b.command(ctx, nil, goTool(), "env", "GOROOT"))
	if err != nil {
		return err
	}
	modules["the Go standard library"] = strings.TrimSpace(string(root))
	text, err := collect(modules)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.stage, notices), text, 0o600)
}

// collect fails for a module that has no license: it could not be passed on.
func collect(modules map[string]string) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintln(&out, "aisb is one binary, which holds parts of the following.")
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		entries, err := os.ReadDir(modules[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "\n%s\n%s\n", strings.Repeat("=", 80), name)
		found := false
		for _, e := range entries {
			if !e.Type().IsRegular() || !legal.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(modules[name], e.Name()))
			if err != nil {
				return nil, err
			}
			found = found || !strings.EqualFold(e.Name(), "notice") && !strings.EqualFold(e.Name(), "patents")
			fmt.Fprintf(&out, "\n--- %s\n\n%s\n", e.Name(), bytes.TrimSpace(text))
		}
		if !found {
			return nil, fmt.Errorf("%s: no file with its license", name)
		}
	}
	return out.Bytes(), nil
}
