package protect

import (
	"path"
	"strings"
)

// place is what kind of directory one is.
type place uint8

const (
	tree         place = iota // of the user's
	repository                // a git directory
	repositories              // one that holds git directories, or is one of them
	whole                     // all in it counts
)

// Dir is a directory that is being looked through. Its zero value is an
// ordinary one.
type Dir struct {
	place place
	top   bool
	deps  bool  // it belongs to dependencies
	rule  *Rule // of whole
	next  *node // of a path that has led here
}

// Where a look begins.
var (
	Top        = Dir{top: true}         // a project
	Repository = Dir{place: repository} // a git directory
)

// All is a directory that counts by a rule with all that lies in it.
func All(r *Rule) Dir { return Dir{place: whole, rule: r} }

// Turns is how many turns there are.
const Turns = 3

// Turn is when to look into a directory if there may not be time for all: first into
// repositories, which are few and in which each name counts, last into what counts
// as a whole, since that is known by then.
func (d Dir) Turn() int {
	switch d.place {
	case repository, repositories:
		return 0
	case whole:
		return 2
	case tree:
	}
	return 1
}

// Marks are names in a directory by which git takes it for a repository.
type Marks uint8

const (
	markHead Marks = 1 << iota
	markObjects
	markRefs
	markCommon
)

var marks = map[string]Marks{"head": markHead, "objects": markObjects, "refs": markRefs, "commondir": markCommon}

// Bare reports whether git takes a directory with these names for a repository
// (is_git_directory in setup.c): it asks for HEAD, and for objects and refs there
// or where commondir says. What HEAD holds is not looked at: a wrong one can be
// made right.
func (m Marks) Bare() bool {
	both := markObjects | markRefs
	return m&markHead != 0 && (m&both == both || m&markCommon != 0)
}

// Verdict is what an entry of a directory means.
type Verdict struct {
	Rule   *Rule // nil: the host executes nothing by that name
	Member bool  // it counts because it lies in a directory that counts as a whole

	Enter bool // a directory that is to be looked through, as
	In    Dir

	Mark Marks // what it adds to those of the directory
	// Inner: in a repository this name has a rule. Ask again with Repository if
	// the directory turns out to be one.
	Inner bool
}

// longest is longer than any name of a rule.
const longest = 32

// Entry judges an entry. Upper and lower case are the same, as on a file
// system that makes no difference.
func (s *Set) Entry(d Dir, name []byte, kind Kind) Verdict {
	v := Verdict{Enter: kind == Directory}
	v.In.deps = d.deps
	if d.place == whole {
		v.Rule, v.Member, v.In = d.rule, true, d
		return v
	}
	var buf [longest]byte
	key := fold(&buf, name)
	if d.place != tree {
		s.inRepository(d, key, kind, &v)
		return v
	}
	if d.next != nil {
		if r := d.next.next[string(key)]; r.counts(d) {
			v.take(r, kind)
			return v
		}
	}
	if len(key) > 0 && s.starts[key[0]] {
		s.named(d, key, kind, &v)
	}
	if v.Rule == nil && kind != Directory {
		for _, r := range s.suffixes {
			if r.counts(d) && hasSuffixFold(name, r.Path[1:]) {
				v.take(r, kind)
			}
		}
	}
	return v
}

// named judges a name that a rule may begin with.
func (s *Set) named(d Dir, key []byte, kind Kind, v *Verdict) {
	if s.deps[string(key)] && kind == Directory {
		v.In.deps = true
	}
	n := s.first[string(key)]
	if n == nil {
		return
	}
	v.Mark = n.mark
	v.Inner = s.repository[string(key)] != nil
	if n.rule.counts(d) {
		v.take(n.rule, kind)
	}
	if n.next == nil || v.Rule != nil {
		return
	}
	switch kind {
	case Directory:
		v.In.next = n
	case Link:
		// What it leads to would be taken for the real thing.
		for _, r := range n.next {
			if r.counts(d) {
				v.Rule = r
			}
		}
	}
}

// inRepository judges an entry of a git directory.
func (s *Set) inRepository(d Dir, key []byte, kind Kind, v *Verdict) {
	v.Enter = false
	if r := s.repository[string(key)]; r != nil {
		v.take(r, kind)
		return
	}
	if d.place != repositories || kind != Directory {
		return
	}
	// The name of a submodule may have slashes in it. What git fills itself is left out.
	switch string(key) {
	case "objects", "refs", "logs", "info", "lfs":
	default:
		v.Enter, v.In.place = true, repositories
	}
}

// counts reports whether a rule is there and counts in d.
func (r *Rule) counts(d Dir) bool {
	switch {
	case r == nil:
		return false
	case r.Where == whereTop:
		return d.top
	case r.Where == whereAny:
		return !d.deps
	}
	return true
}

// take applies a rule to an entry of a kind. A link counts as what it might be.
func (v *Verdict) take(r *Rule, kind Kind) {
	switch {
	case kind == Link, kind == Other:
		v.Rule = r
	case r.Kind == ofFile:
		if kind == File {
			v.Rule = r
		}
	case r.Kind == ofDir:
		if kind == Directory {
			v.Rule, v.Enter, v.In = r, true, Dir{place: whole, rule: r}
		}
	case r.Kind == ofRepositories:
		if kind == Directory {
			v.Rule, v.Enter, v.In = r, true, Dir{place: repositories}
		}
	default:
		v.Rule = r
		if kind == Directory {
			v.Enter, v.In = true, Dir{place: repository}
		}
	}
}

// Bare is the rule of directories that are repositories without being named so.
func (s *Set) Bare() *Rule { return s.bare }

// Would is the rule that protects a path of a project, if there is something
// there; nil for none.
func (s *Set) Would(rel string) *Rule {
	d := Top
	names := strings.Split(path.Clean(rel), "/")
	for i, name := range names {
		last := i == len(names)-1
		for _, kind := range []Kind{Directory, File} {
			if kind == File && !last {
				continue
			}
			v := s.Entry(d, []byte(name), kind)
			if v.Rule != nil && (last || v.Rule.Whole()) {
				return v.Rule
			}
			if kind == Directory && !last {
				d = v.In
			}
		}
	}
	return nil
}

// Literals are the paths without patterns that count at the top of a project.
func (s *Set) Literals() []string {
	var list []string
	for _, r := range s.Rules {
		switch {
		case r.Kind == ofBare, r.Path[0] == '*', r.Kind == ofRepositories:
		case r.Where == whereRepository:
			list = append(list, ".git/"+r.Path)
		default:
			list = append(list, r.Path)
		}
	}
	return list
}

// fold is a name in lower case, or what of it fits: a longer one is no rule's.
func fold(buf *[longest]byte, name []byte) []byte {
	if len(name) > len(buf) {
		return nil
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf[:len(name)]
}

// hasSuffixFold looks at the last byte first: it is asked of every file.
func hasSuffixFold(name []byte, suffix string) bool {
	n, m := len(name), len(suffix)
	return n >= m && name[n-1]|0x20 == suffix[m-1] && strings.EqualFold(string(name[n-m:]), suffix)
}
