//go:build linux

package main

import (
	"io/fs"
	"path/filepath"
)

// file is one of a release.
type file struct {
	from string
	tar  string // in the archive
	pkg  string // in the packages; "" in none
	// rpm is where it is in the rpm, where Fedora has another place than Debian.
	rpm  string
	kind string // what the rpm calls it: doc, license
	mode fs.FileMode
}

const (
	docDir     = "/usr/share/doc/aisb"
	licenseDir = "/usr/share/licenses/aisb" // of an rpm
	unitDir    = "/usr/lib/systemd/system"
	notices    = "third-party-licenses.txt"
)

// shells are those with completions, each with its directory for those of packages.
var shells = []struct{ name, file, deb, rpm string }{
	{"bash", "aisb.bash", "/usr/share/bash-completion/completions/aisb", ""},
	{"zsh", "_aisb", "/usr/share/zsh/vendor-completions/_aisb", "/usr/share/zsh/site-functions/_aisb"},
	{"fish", "aisb.fish", "/usr/share/fish/vendor_completions.d/aisb.fish", ""},
}

// units are enabled by nobody but the administrator: a package runs nothing.
var units = []string{"aisb-gate.service", "aisb-gate.socket"}

// layout says where everything but the binary goes. Nothing is a script that an
// installation would run as root.
func layout(top, stage string, pages, docs []string) []file {
	files := []file{
		// Debian's name for it (Debian Policy, 12.5).
		{from: filepath.Join(top, "LICENSE"), tar: "LICENSE", pkg: docDir + "/copyright", rpm: licenseDir + "/LICENSE", kind: "license"},
		{from: filepath.Join(stage, notices), tar: notices, pkg: docDir + "/" + notices, rpm: licenseDir + "/" + notices, kind: "license"},
		{from: filepath.Join(top, "README.md"), tar: "README.md", pkg: docDir + "/README.md", kind: "doc"},
	}
	for _, name := range docs {
		to := "docs/" + filepath.Base(name) // where README.md's links lead
		files = append(files, file{from: name, tar: to, pkg: docDir + "/" + to, kind: "doc"})
	}
	for _, name := range pages {
		to := "man/man1/" + filepath.Base(name)
		files = append(files, file{from: name, tar: to, pkg: "/usr/share/" + to})
	}
	for _, shell := range shells {
		files = append(files, file{from: filepath.Join(stage, shell.file), tar: "completions/" + shell.file, pkg: shell.deb, rpm: shell.rpm})
	}
	for _, unit := range units {
		files = append(files, file{from: filepath.Join(top, "docs/systemd", unit), tar: "docs/systemd/" + unit, pkg: unitDir + "/" + unit})
	}
	for i := range files {
		files[i].mode = 0o644
	}
	return files
}

// place is where a file is in a package of this format.
func (f file) place(format string) string {
	if format == "rpm" && f.rpm != "" {
		return f.rpm
	}
	return f.pkg
}
