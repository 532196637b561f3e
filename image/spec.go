// Package image renders the container image of a sandbox as data: the
// Containerfile and the files beside it, the tag that names their content, and
// podman's arguments to build it. It runs nothing and builds on any system.
package image

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
)

// DefaultBase is the image that others are built on.
const DefaultBase = "ubuntu:24.04"

// formatVersion changes when an image made by an older aisb must not be used
// by this one although its input is the same.
const formatVersion = 1

// Spec is an image as asked for.
type Spec struct {
	// Base is a reference to a Debian-like image: apt, and GNU tools.
	Base string
	// BaseID is the ID of the local image that Base stood for. An ID names
	// layers and configuration, and unlike a manifest's digest, images that
	// were imported or loaded have one too. Tag needs it, Containerfile doesn't.
	BaseID string

	Harness  Harness
	Packages []string // Debian packages to add, NAME or NAME=VERSION
	Commands []string // shell commands run as root, after the packages
}

// Compiled at first use: aisb starts four times for each run, mostly to do
// something else.
var (
	reName    = lazy(`^[a-z0-9][a-z0-9-]*$`)
	rePackage = lazy(`^(@[a-z0-9-][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
	reVersion = lazy(`^[0-9A-Za-z.^~<>=|* -]+$`)
	reNode    = lazy(`^[1-9][0-9]$`)
	reBase    = lazy(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)
	reID      = lazy(`^(sha256:)?[0-9a-f]{64}$`)
	// Debian Policy 5.6.1 and 5.6.12, with an architecture after a colon.
	reDebian = lazy(`^[a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?(=[0-9A-Za-z.+:~-]+)?$`)
	rePath   = lazy(`^(/[A-Za-z0-9._-]+)+$`)
	// Of what package tools say: a host's name, and a URL in a line of text.
	reHost = lazy(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	reURL  = lazy(`https?://[^\s'"\\,]+`)
)

func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Check reports what can't be built, before anything is run.
func (s Spec) Check() error {
	if !reBase().MatchString(s.Base) {
		return fmt.Errorf("base image %q is not an image reference", s.Base)
	}
	if s.BaseID != "" && !reID().MatchString(s.BaseID) {
		return fmt.Errorf("base image %q has the ID %q, which is none", s.Base, s.BaseID)
	}
	for _, p := range s.Packages {
		if !reDebian().MatchString(p) {
			return fmt.Errorf("package %q is not the name of a Debian package", p)
		}
	}
	if slices.Contains(s.Commands, "") {
		return errors.New("a command to run in the image is empty")
	}
	return s.Harness.check()
}
