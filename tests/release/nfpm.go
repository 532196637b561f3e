//go:build linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// nfpmTool writes packages without the tools of a distribution. It is pinned and
// fetched as the linters of tests/lint are, so that its hundred modules are none of
// aisb's.
const nfpmTool = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

const description = `runs an AI coding harness in a sandbox with an allowlist
aisb runs an AI coding harness, or any command, on the current directory in a
rootless podman container whose only way out is an allowlisting gate, fenced by
a ruleset that is proved before the harness starts.`

// What 'aisb doctor' wants to find (sandbox/doctor). Recommended, since the gate
// alone, 'aisb gate', needs none of it. podman below 5.3 won't do.
var recommends = map[string][]string{
	"deb": {"podman (>= 5.3)", "crun", "passt (>= 0.0~git20240814)", "uidmap"},
	"rpm": {"podman >= 5.3", "crun", "passt >= 0^20240814", "shadow-utils"},
}

// recipe is nfpm's configuration: JSON, which is YAML too.
type recipe struct {
	Name          string    `json:"name"`
	Arch          string    `json:"arch"`
	Platform      string    `json:"platform"`
	Version       string    `json:"version"`
	VersionSchema string    `json:"version_schema"`
	Section       string    `json:"section"`
	Priority      string    `json:"priority"`
	Maintainer    string    `json:"maintainer"`
	Description   string    `json:"description"`
	Homepage      string    `json:"homepage"`
	License       string    `json:"license"`
	MTime         time.Time `json:"mtime"`
	NoGlobs       bool      `json:"disable_globbing"`
	Recommends    []string  `json:"recommends"`
	RPM           struct {
		Summary   string `json:"summary"`
		Group     string `json:"group"`
		BuildHost string `json:"buildhost"`
	} `json:"rpm"`
	Contents []content `json:"contents"`
}

type content struct {
	From string   `json:"src,omitempty"`
	To   string   `json:"dst"`
	Type string   `json:"type,omitempty"`
	Info fileInfo `json:"file_info"`
}

type fileInfo struct {
	Owner string    `json:"owner"`
	Group string    `json:"group"`
	Mode  uint32    `json:"mode"`
	MTime time.Time `json:"mtime"`
}

// newRecipe is pure.
func newRecipe(src source, format, arch string, files []file) recipe {
	r := recipe{
		Name: "aisb", Arch: arch, Platform: "linux", Version: src.pkg, VersionSchema: "none",
		Section: "utils", Priority: "optional", Maintainer: "The aisb authors <aisb@users.invalid>",
		Description: description, Homepage: "https://github.com/aisb-dev/aisb", License: "MIT",
		MTime: src.time, NoGlobs: true, Recommends: recommends[format],
	}
	r.RPM.Group = "Applications/System"
	r.RPM.BuildHost = "reproducible" // or it would be this machine's name
	info := func(mode uint32) fileInfo {
		return fileInfo{Owner: "root", Group: "root", Mode: mode, MTime: src.time}
	}
	for _, f := range files {
		to := f.place(format)
		c := content{From: f.from, To: to, Info: info(uint32(f.mode))}
		if format == "rpm" {
			c.Type = f.kind
		}
		r.Contents = append(r.Contents, c)
	}
	if format == "rpm" { // which removes no directory that isn't a package's
		for _, dir := range []string{docDir, docDir + "/docs", licenseDir} {
			r.Contents = append(r.Contents, content{To: dir, Type: "dir", Info: info(0o755)})
		}
	}
	return r
}

// nfpm writes one package.
func (b build) nfpm(ctx context.Context, format, arch string, files []file, to string) error {
	text, err := json.MarshalIndent(newRecipe(b.src, format, arch, files), "", "  ")
	if err != nil {
		return err
	}
	config := filepath.Join(b.stage, arch, format+".json")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	_, err = output(b.command(ctx, []string{b.epoch()}, goTool(), "run", nfpmTool, "package", "--config", config, "--packager", format, "--target", to))
	return err
}
