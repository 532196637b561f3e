package snapshot

import (
	"os"
	"slices"
	"time"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// Limits of a look. A tree beyond them was not looked through to its end, and
// that is said.
var (
	AtStart = Limits{Entries: 2_000_000, Time: 3 * time.Second, Found: 20_000}
	AtEnd   = Limits{Entries: 5_000_000, Time: 10 * time.Second, Found: 20_000}
)

// Watch holds what the host would execute of some trees as it was at the start
// of a run.
type Watch struct {
	Before Look
	Set    *protect.Set
	Trees  []Tree
	Left   []string // paths that the user has left open, as shown: nothing of them is moved aside

	missing []string // what wasn't there when it was last looked for
}

// NewWatch begins with a look.
func NewWatch(set *protect.Set, trees []Tree, before Look) *Watch {
	w := &Watch{Set: set, Trees: trees, Before: before}
	if len(trees) > 0 {
		for _, rel := range set.Literals() {
			if _, err := kindAt(trees[0].File, rel); err != nil {
				w.missing = append(w.missing, rel)
			}
		}
	}
	return w
}

// Appeared are paths at the top of the first tree that have come since it was
// last asked. It costs a microsecond or two for each of some fifty names; a watch by
// inotify(7) would need one for each directory, and the user's share of them is
// small.
func (w *Watch) Appeared() []string {
	if w == nil || len(w.Trees) == 0 {
		return nil
	}
	var come []string
	w.missing = slices.DeleteFunc(w.missing, func(rel string) bool {
		if _, err := kindAt(w.Trees[0].File, rel); err != nil {
			return false
		}
		come = append(come, w.Trees[0].Shown(rel))
		return true
	})
	return come
}

// Outcome is what a run has left.
type Outcome struct {
	Changes []protect.Change
	Names   int  // that were looked at
	Cut     bool // there may be more
	Closed  int  // so many more directories and files than at the start can't be looked at
}

// After looks once more, and says what is new or other.
func (w *Watch) After(limits Limits) Outcome {
	if w == nil || len(w.Trees) == 0 {
		return Outcome{}
	}
	now := Take(w.Trees, w.Set, limits, &w.Before)
	return Outcome{
		Changes: protect.Compare(w.Before.Entries, now.Entries), Names: now.Names,
		Cut: now.Cut || w.Before.Cut, Closed: max(0, now.Closed-w.Before.Closed),
	}
}

// place finds the tree of a shown path, and its path there.
func (w *Watch) place(c protect.Change) (tree *os.File, rel string, ok bool) {
	best := -1
	for i, t := range w.Trees {
		if t.Show == "" && !isAbs(c.Path) || t.Show != "" && protect.Within(c.Path, t.Show) {
			if best < 0 || len(t.Show) > len(w.Trees[best].Show) {
				best = i
			}
		}
	}
	if best < 0 {
		return nil, "", false
	}
	t := w.Trees[best]
	if t.Show == "" {
		return t.File, c.Path, true
	}
	if c.Path == t.Show {
		return t.File, ".", true
	}
	return t.File, c.Path[len(t.Show)+1:], true
}

func isAbs(path string) bool { return path != "" && path[0] == '/' }
