//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is what git says of the tree.
type source struct {
	name   string    // of the release: v1.2.3, v1.2.3-5-gHASH, or HASH before the first tag
	pkg    string    // the same for dpkg and rpm, which compare
	commit string    // in full
	time   time.Time // the commit's, which all files get
	dirty  bool      // the tree has what the commit hasn't
}

// base is what the files of one architecture are called, without the format.
func (s source) base(arch string) string {
	return "aisb_" + strings.TrimPrefix(s.name, "v") + "_linux_" + arch
}

// look asks git. epoch is SOURCE_DATE_EPOCH
// (reproducible-builds.org/specs/source-date-epoch), which goes before the commit's time.
func look(ctx context.Context, top, epoch string) (source, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", top}, args...)...).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
		}
		return strings.TrimSpace(string(out)), err
	}
	var s source
	var err error
	if s.commit, err = git("rev-parse", "HEAD"); err != nil {
		return s, fmt.Errorf("a release is of a commit: %w", err)
	}
	// The length of a hash depends on how many objects a clone has, unless it is given.
	if s.name, err = git("describe", "--tags", "--always", "--abbrev=12", "--match", "v[0-9]*"); err != nil {
		return s, err
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return s, err
	}
	if s.dirty = changes != ""; s.dirty {
		s.name += "-dirty"
	}
	if epoch == "" {
		if epoch, err = git("show", "--no-patch", "--format=%ct", "HEAD"); err != nil {
			return s, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH=%q: seconds since 1970", epoch)
	}
	s.time = time.Unix(seconds, 0).UTC()
	s.pkg, err = packageVersion(s.name, s.time)
	return s, err
}

var (
	tagged   = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+)(?:-([0-9A-Za-z.]+))?(?:-([0-9]+)-g([0-9a-f]+))?$`)
	untagged = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// packageVersion is name as dpkg and rpm are to compare it: a pre-release (~) before
// its release, what came after a tag (+) behind it, and what has no tag before all
// that have, by time (deb-version(7); rpm-version(7)). Neither takes a hyphen.
func packageVersion(name string, at time.Time) (string, error) {
	clean, dirty := strings.CutSuffix(name, "-dirty")
	v := ""
	if untagged.MatchString(clean) {
		v = "0~" + at.UTC().Format("20060102150405") + "." + clean
	} else if m := tagged.FindStringSubmatch(clean); m != nil {
		v = m[1]
		if m[2] != "" {
			v += "~" + m[2]
		}
		if m[3] != "" {
			v += "+" + m[3] + ".g" + m[4]
		}
	} else {
		return "", fmt.Errorf("the version %q: tags are like v1.2.3 or v1.2.3-rc.1", name)
	}
	if dirty {
		v += "+dirty"
	}
	return v, nil
}
