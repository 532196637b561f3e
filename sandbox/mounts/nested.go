package mounts

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// addNested finds mount points of the host in the sources.
func (p *Plan) addNested() error {
	list, err := mountinfo.Read()
	if err != nil {
		return err
	}
	warned := make(map[string]bool)
	for _, m := range p.Mounts {
		for _, other := range list {
			point := other.Target
			if point == m.Source || !within(point, m.Source) {
				continue
			}
			rel, err := filepath.Rel(m.Source, point)
			if err != nil {
				return err
			}
			if m.ReadOnly {
				// The read-only flag of a bind mount is of that mount alone
				// (mount(8), "read-only"), what lies below would be writable.
				return refuse("unmount it, or mount read-write", "%q can't be mounted read-only: %q in it is another file system", m.Source, point)
			}
			p.Nested = append(p.Nested, Mount{Source: point, Target: filepath.Join(m.Target, rel)})
			if !warned[point] {
				warned[point] = true
				p.warnf("%s is another file system and is mounted with %s", point, m.Source)
			}
		}
	}
	return nil
}

// checkText refuses names that podman can't hand on.
func (p *Plan) checkText() error {
	for _, list := range [][]Mount{p.Mounts, p.Nested} {
		for _, m := range list {
			if why := unmountable(m.Source + "/" + m.Target); why != "" {
				return refuse("rename it: podman can't mount it by that name", "%q is not mounted: its name %s", m.Source, why)
			}
		}
	}
	return nil
}

// longestPath is somewhat less than the kernel takes at once (PATH_MAX): an agent can
// make a longer one, name by name.
const longestPath = 4000

// unmountable is why podman would take a name for that of another file, "" if it
// doesn't. Its configuration of a container is JSON, which has U+FFFD in place of a
// byte that isn't UTF-8; and it reads --mount as CSV, in which a line break of two
// bytes becomes one of one byte (encoding/csv). One that is too long is nobody's to open.
func unmountable(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.Contains(name, "\r\n"):
		return "has a carriage return and a line feed in it"
	case len(name) > longestPath:
		return "is too long"
	}
	return ""
}
