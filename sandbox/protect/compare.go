package protect

import (
	"cmp"
	"slices"
	"strings"
)

// Entry is something that counts, as a look has found it.
type Entry struct {
	Kind   Kind
	Rule   *Rule
	Member bool
	// Sum is its content: of a file a hash, or what the kernel tells of a large
	// one; of a link where it leads.
	Sum string
	// Settings are those of git's configuration, of a file that is one; nil when it
	// was not read.
	Settings []Setting
}

// Snapshot is all that counts, by path.
type Snapshot map[string]Entry

// Change is what has come or is another than before.
type Change struct {
	Path   string
	New    bool
	Kind   Kind
	Rule   *Rule
	Member bool
	Keys   []string // settings by which git runs something now
}

// Compare finds what is new or other in now. What lies in a new directory is
// told with it. What is gone executes nothing.
func Compare(before, now Snapshot) []Change {
	var changes []Change
	for path, e := range now {
		old, had := before[path]
		hides := e.Rule == ClosedRule && old.Rule != ClosedRule
		if had && !hides && old.Kind == e.Kind && (old.Sum == e.Sum || e.Kind == Directory) {
			continue
		}
		c := Change{Path: path, New: !had, Kind: e.Kind, Rule: e.Rule, Member: e.Member}
		if e.Settings != nil {
			c.Keys = NewlyExecutes(old.Settings, e.Settings)
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path+"/", b.Path+"/") })
	return collapse(changes)
}

// collapse leaves out what a new directory is told with, but keeps what it makes
// git run. A directory that has become a repository is told alone: it may hold
// anything else, too.
func collapse(changes []Change) []Change {
	var out []Change
	var holders []int // new directories, each in the one before
next:
	for _, c := range changes {
		for len(holders) > 0 && !Within(c.Path, out[holders[len(holders)-1]].Path) {
			holders = holders[:len(holders)-1]
		}
		for _, i := range holders {
			if c.partOf(out[i]) {
				out[i].Keys = append(out[i].Keys, c.Keys...)
				continue next
			}
		}
		if c.New && c.Kind == Directory {
			holders = append(holders, len(out))
		}
		out = append(out, c)
	}
	return out
}

// partOf reports whether c lies in a new directory and belongs to it.
func (c Change) partOf(dir Change) bool {
	if dir.Rule.Kind != ofBare {
		return true
	}
	rest := strings.TrimPrefix(c.Path, dir.Path+"/")
	first, _, _ := strings.Cut(rest, "/")
	return c.Rule.Where == whereRepository && (first == c.Rule.Path || first == "modules" || first == "worktrees")
}

// Within reports whether a path is dir or lies in it. Both are clean.
func Within(path, dir string) bool {
	return path == dir || dir == "." || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
