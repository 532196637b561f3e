// Package mountinfo reads the kernel's list of mounts.
package mountinfo

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Mount is a line of mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	Device  string // MAJOR:MINOR of its file system
	Root    string // within that
	Target  string
	Options []string // of the mount
	Type    string
	Super   []string // options of the file system
}

// ReadOnly reports whether the mount or its file system is.
func (m Mount) ReadOnly() bool {
	return slices.Contains(m.Options, "ro") || slices.Contains(m.Super, "ro")
}

// Read reads the mounts that this process sees.
func Read() ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Parse reads the text of /proc/PID/mountinfo.
func Parse(text string) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			return nil, fmt.Errorf("malformed line %q", line)
		}
		m := Mount{Device: l[2], Root: unescape(l[3]), Target: unescape(l[4]), Options: strings.Split(l[5], ","), Type: r[0]}
		if len(r) > 2 {
			m.Super = strings.Split(r[2], ",")
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// unescape undoes the octal escapes that the kernel writes for space, tab,
// newline and backslash (seq_path in fs/seq_file.c).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
