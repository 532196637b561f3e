package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// Bounds of what is read of a file: of a larger one, or when much was read
// already, what the kernel tells of it stands for its content. An agent can't set
// the time of a change of its inode (utimensat(2) sets the others).
const (
	largeFile = 1 << 20
	readInAll = 64 << 20
)

// Tree is a part of the host that is looked through.
type Tree struct {
	File *os.File // a directory, by O_PATH; its owner closes it
	Path string   // on the host
	Show string   // what its paths are shown with in front; "" for nothing
	From protect.Dir
	// Named are paths that count beside what the rules say.
	Named map[string]*protect.Rule
}

// Shown is the path of something in the tree as it is shown.
func (t Tree) Shown(rel string) string {
	if t.Show == "" {
		return rel
	}
	return path.Join(t.Show, rel)
}

// Item is where something that counts lies, and what the kernel tells of it.
type Item struct {
	Tree int
	Rel  string

	Dev, Ino, Links uint64
	size            int64
	changed         unix.Timespec // its content or inode
}

// same reports whether it is what it was, as far as the kernel tells.
func (i Item) same(o Item) bool {
	return i.Ino == o.Ino && i.Dev == o.Dev && i.size == o.size && i.changed == o.changed
}

// Look is what a look has seen. Items has the keys of Entries.
type Look struct {
	Entries protect.Snapshot // by shown path
	Items   map[string]Item
	Names   int // that were looked at
	Cut     bool
	Closed  int // directories and files that can't be looked at

	read, configs int64 // bytes of files, and of git's configuration
}

// looker takes what counts in some trees.
type looker struct {
	*Look
	trees  []Tree
	set    *protect.Set
	limits Limits
	before *Look // what has not changed since is not read again
}

// Take looks through trees. What is as it was in before, which may be nil, isn't
// read again.
func Take(trees []Tree, set *protect.Set, limits Limits, before *Look) Look {
	l := looker{Look: &Look{Entries: protect.Snapshot{}, Items: map[string]Item{}}, trees: trees, set: set, limits: limits, before: before}
	for i, t := range trees {
		from := map[string]protect.Dir{".": t.From}
		for rel, rule := range t.Named {
			kind, err := kindAt(t.File, rel)
			if errors.Is(err, unix.ELOOP) {
				rel, kind, err = linkOnTheWay(t.File, rel)
			}
			if err == nil {
				l.named(i, rel, kind, rule, from)
			}
		}
		l.walk(i, from)
	}
	return *l.Look
}

// Name lets a path of a tree count by a rule, and takes it if something lies
// there. It returns an error if a symbolic link is on the way to it.
func (l *Look) Name(trees []Tree, tree int, rel string, rule *protect.Rule, set *protect.Set, limits Limits) (protect.Kind, error) {
	t := &trees[tree]
	kind, err := kindAt(t.File, rel)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return kind, err
	}
	if t.Named == nil {
		t.Named = map[string]*protect.Rule{}
	}
	t.Named[rel] = rule
	if missing {
		return kind, nil
	}
	from := map[string]protect.Dir{}
	k := looker{Look: l, trees: trees, set: set, limits: limits}
	k.named(tree, rel, kind, rule, from)
	k.walk(tree, from)
	return kind, nil
}

func (l *looker) named(tree int, rel string, kind protect.Kind, rule *protect.Rule, from map[string]protect.Dir) {
	if kind == protect.Directory && rule == protect.CommandRule {
		return
	}
	l.add(tree, Found{Path: rel, Kind: kind, Rule: rule})
	if kind == protect.Directory {
		from[rel] = protect.All(rule)
	}
}

func (l *looker) walk(tree int, from map[string]protect.Dir) {
	if len(from) == 0 {
		return
	}
	w := Walk(l.trees[tree].File, l.set, from, l.limits)
	l.Names += w.Entries
	l.Cut = l.Cut || w.Cut
	l.Closed += w.Closed
	for _, f := range w.Found {
		l.add(tree, f)
	}
}

// add takes one thing. Of two that mean the same it counts by its own rule rather
// than by that of a directory above, and as a whole rather than in parts.
func (l *looker) add(tree int, f Found) {
	t := l.trees[tree]
	shown := t.Shown(f.Path)
	if old, ok := l.Entries[shown]; ok && (!old.Rule.Holder() || f.Rule.Holder()) && (!old.Member || f.Member) {
		return
	}
	e := protect.Entry{Kind: f.Kind, Rule: f.Rule, Member: f.Member}
	item := Item{Tree: tree, Rel: f.Path}
	fd, err := open(int(t.File.Fd()), f.Path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) { // it has gone meanwhile
			l.Closed++
		}
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		l.Closed++
		return
	}
	e.Kind = kindOfMode(st.Mode)
	item.Dev, item.Ino, item.Links = st.Dev, st.Ino, uint64(st.Nlink) //nolint:unconvert // 32 bits on arm64
	item.size, item.changed = st.Size, st.Ctim
	switch e.Kind {
	case protect.File:
		l.file(fd, shown, item, &e)
	case protect.Link:
		buf := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(fd, "", buf); err == nil {
			e.Sum = string(buf[:n])
		}
	}
	l.Entries[shown], l.Items[shown] = e, item
}

// file takes the content of a file. fd is opened by O_PATH, so what is read is
// what was looked at.
func (l *looker) file(fd int, shown string, item Item, e *protect.Entry) {
	if l.before != nil {
		if old, ok := l.before.Items[shown]; ok && old.same(item) {
			was := l.before.Entries[shown]
			e.Sum, e.Settings = was.Sum, was.Settings
			return
		}
	}
	e.Sum = fmt.Sprintf("inode %d:%d, %d bytes, changed %d.%09d", item.Dev, item.Ino, item.size, item.changed.Sec, item.changed.Nsec)
	read := &l.read
	if e.Rule.GitConfig {
		// It has a share of its own, or an agent could fill that: what a configuration
		// names isn't protected if nobody has read it.
		read = &l.configs
	}
	if item.size > largeFile || *read > readInAll {
		l.Cut = l.Cut || e.Rule.GitConfig
		return
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largeFile+1))
	if err != nil || len(text) > largeFile {
		return
	}
	*read += int64(len(text))
	sum := sha256.Sum256(text)
	e.Sum = hex.EncodeToString(sum[:])
	if e.Rule.GitConfig {
		e.Settings, _ = protect.ParseGitConfig(string(text)) // what can't be read git doesn't take either
	}
}

// linkOnTheWay is the first symbolic link in a path of a tree: what that leads to would be
// taken for what lies at the path.
func linkOnTheWay(root *os.File, rel string) (string, protect.Kind, error) {
	for i, c := range rel {
		if c != '/' {
			continue
		}
		if kind, err := kindAt(root, rel[:i]); err != nil || kind == protect.Link {
			return rel[:i], kind, err
		}
	}
	return rel, protect.Other, unix.ENOENT // it has gone meanwhile
}

// kindAt is what lies at a path of a tree.
func kindAt(root *os.File, rel string) (protect.Kind, error) {
	fd, err := open(int(root.Fd()), rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return protect.Other, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return protect.Other, err
	}
	return kindOfMode(st.Mode), nil
}
