// Package protect knows what of a project the host would later execute:
// as data, how a name is matched with it, what of git's configuration
// starts programs, and what has changed between two looks. It touches no file:
// package snapshot looks.
package protect

import (
	_ "embed" // rules.json
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Kind is what lies under a name.
type Kind uint8

// The kinds.
const (
	Other Kind = iota // a socket, a FIFO, a device
	File
	Directory
	Link
)

// What a rule is about.
const (
	ofFile         = "file"
	ofDir          = "dir"          // with all that lies in it
	ofRepository   = "repository"   // a git directory, or a file that names one
	ofRepositories = "repositories" // a directory of git directories
	ofBare         = "bare"         // a directory that git takes for a repository whatever its name
)

// Where a rule counts.
const (
	whereTop        = "top"        // at the top of the project
	whereAny        = "any"        // in any directory but those of dependencies
	whereEverywhere = "everywhere" // in those too
	whereRepository = "repository" // in each git directory
)

// Groups are what executes it, in the order in which they are protected where
// there is more than can be.
var Groups = []string{"git", "aisb", "shell", "agent", "editor", "tool", "ci", "user"}

// Rule is one thing that the host would execute.
type Rule struct {
	Path  string `json:"path"` // one name or two; the last may be *.SUFFIX
	Kind  string `json:"kind"`
	Where string `json:"where"`
	Group string `json:"group"`
	Why   string `json:"why"`

	GitConfig bool `json:"gitconfig"` // a file of git's configuration
}

// Whole reports whether a directory counts with all that lies in it.
func (r *Rule) Whole() bool { return r.Kind == ofDir }

// Holder reports whether it is a git directory: what lies in it has rules of
// its own, and the rest is git's to write.
func (r *Rule) Holder() bool {
	return r.Kind == ofRepository || r.Kind == ofRepositories || r.Kind == ofBare
}

// The rules of what the user, git's configuration and links in protected
// directories name, and of directories that their owner closed.
var (
	UserRule     = &Rule{Kind: ofDir, Group: "user", Why: "named by --protect"}
	NamedRule    = &Rule{Kind: ofDir, Group: "git", Why: "git's configuration names it"}
	CommandRule  = &Rule{Kind: ofFile, Group: "git", Why: "git's configuration names it"} // a word of a command: only a file counts
	IncludedRule = &Rule{Kind: ofFile, Group: "git", Why: "git's configuration includes it", GitConfig: true}
	ClosedRule   = &Rule{Kind: ofDir, Group: "git", Why: "you may not look into it, so what is in it isn't known"}
	LinkedRule   = &Rule{Kind: ofFile, Group: "git", Why: "a link in a protected directory leads to it"}
)

//go:embed rules.json
var data []byte

// Set is all rules, ready to be matched.
type Set struct {
	Rules []*Rule
	// Dependencies are directories that package managers fill. In them only
	// repositories count: nobody opens an editor or a shell there.
	Dependencies []string

	bare       *Rule
	repository map[string]*Rule
	first      map[string]*node
	suffixes   []*Rule
	deps       map[string]bool
	starts     [256]bool // bytes that a name of any rule starts with
}

// node is what a name leads to: a rule, or those of longer paths.
type node struct {
	rule *Rule
	next map[string]*Rule
	mark Marks
}

// Load reads the data that is built in.
func Load() (*Set, error) { return parse(data) }

func parse(text []byte) (*Set, error) {
	var file struct {
		Rules        []*Rule  `json:"rules"`
		Dependencies []string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read rules of protection: %w", err)
	}
	s := &Set{
		Rules: file.Rules, Dependencies: file.Dependencies,
		repository: map[string]*Rule{}, first: map[string]*node{}, deps: map[string]bool{},
	}
	for _, name := range file.Dependencies {
		s.deps[name] = true
		s.starts[name[0]] = true
	}
	for name, mark := range marks {
		s.at(name).mark = mark
	}
	for _, r := range file.Rules {
		if err := s.add(r); err != nil {
			return nil, fmt.Errorf("rule of protection %q: %w", r.Path, err)
		}
	}
	return s, nil
}

// at is the node of a name.
func (s *Set) at(name string) *node {
	if s.first[name] == nil {
		s.first[name] = &node{}
	}
	s.starts[name[0]] = true
	return s.first[name]
}

func (s *Set) add(r *Rule) error {
	names := strings.Split(r.Path, "/")
	last := names[len(names)-1]
	switch {
	case r.Path == "" || path.Clean("/" + r.Path)[1:] != r.Path || r.Path[0] == '/' || len(names) > 2 || r.Path != strings.ToLower(r.Path):
		return errors.New("the path is one name or two, in lower case")
	case r.Why == "" || !slices.Contains(Groups, r.Group):
		return errors.New("group or reason is missing")
	case r.Kind == ofBare:
		s.bare = r
	case r.Where == whereRepository:
		if len(names) > 1 || !slices.Contains([]string{ofFile, ofDir, ofRepositories}, r.Kind) {
			return errors.New("a rule of repositories has one name")
		}
		s.repository[last] = r
		s.at(last)
	case r.Where != whereTop && r.Where != whereAny && r.Where != whereEverywhere:
		return fmt.Errorf("unknown place %q", r.Where)
	case r.Kind != ofFile && r.Kind != ofDir && r.Kind != ofRepository:
		return fmt.Errorf("unknown kind %q", r.Kind)
	case last[0] == '*':
		if len(names) > 1 || r.Kind != ofFile || strings.ContainsAny(last[1:], "*?[") {
			return errors.New("a pattern is *.SUFFIX of a file")
		}
		s.suffixes = append(s.suffixes, r)
	case len(names) == 1:
		s.at(last).rule = r
	default:
		n := s.at(names[0])
		if n.next == nil {
			n.next = map[string]*Rule{}
		}
		n.next[last] = r
	}
	return nil
}
