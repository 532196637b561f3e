package mounts

import (
	"os"
	"path/filepath"
	"strings"
)

// addNested finds mount points of the host in the sources.
func (p *Plan) addNested() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	warned := make(map[string]bool)
	points := parseMountPoints(string(b))
	for _, m := range p.Mounts {
		for _, point := range points {
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

// parseMountPoints reads the fifth field of each line of mountinfo, with its
// octal escapes (proc_pid_mountinfo(5)).
func parseMountPoints(info string) []string {
	var points []string
	for line := range strings.Lines(info) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			points = append(points, unescapeOctal(fields[4]))
		}
	}
	return points
}

// unescapeOctal undoes seq_path's escapes of space, tab, newline and backslash.
func unescapeOctal(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }
