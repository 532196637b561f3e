// Package snapshot looks at what of a tree the host would later execute (package
// protect): it walks the tree, takes what counts, finds what has changed since,
// and moves that aside. It follows no symbolic link, since an agent can have
// made any of them.
package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// Limits bound a walk.
type Limits struct {
	Entries int           // names that are looked at
	Time    time.Duration // of the whole walk
	Found   int           // things that count
}

// Found is something that counts.
type Found struct {
	Path   string // from the top of the tree, "." for the top itself
	Kind   protect.Kind
	Rule   *protect.Rule
	Member bool
}

// Walked is what a walk has seen.
type Walked struct {
	Found   []Found
	Entries int
	Cut     bool // a limit was met: there may be more
	Closed  int  // directories that can't be read
}

// task is a directory to be read.
type task struct {
	rel string
	in  protect.Dir
}

// walker is shared by those who read directories side by side.
type walker struct {
	root     int
	set      *protect.Set
	limits   Limits
	deadline time.Time

	mu      sync.Mutex
	some    *sync.Cond
	tasks   [protect.Turns][]task
	left    int // tasks in all
	busy    int // workers that may still add tasks
	out     Walked
	stopped bool
}

// mostWorkers read side by side: more only wait for the same directory cache.
const mostWorkers = 8

// Walk looks through the tree below root, which may be opened by O_PATH, with a
// few system calls for each directory and none for a file: the kernel tells the
// types of entries with their names. It begins in several directories of it.
func Walk(root *os.File, set *protect.Set, from map[string]protect.Dir, limits Limits) Walked {
	w := &walker{root: int(root.Fd()), set: set, limits: limits, deadline: time.Now().Add(limits.Time)}
	for rel, in := range from {
		w.add(task{rel, in})
	}
	w.some = sync.NewCond(&w.mu)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), mostWorkers) {
		workers.Go(w.work)
	}
	workers.Wait()
	return w.out
}

// work reads directories until there are none left and nobody can add one.
func (w *walker) work() {
	r := reader{walker: w, buf: make([]byte, 64<<10)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for w.left == 0 && w.busy > 0 && !w.stopped {
			w.some.Wait()
		}
		if w.left == 0 || w.stopped {
			w.some.Broadcast()
			return
		}
		t := w.next()
		w.busy++
		w.mu.Unlock()
		err := r.read(t)
		w.mu.Lock()
		w.busy--
		w.take(&r, err)
	}
}

func (w *walker) add(t task) {
	turn := t.in.Turn()
	w.tasks[turn] = append(w.tasks[turn], t)
	w.left++
}

// next takes a task out; there is one. What counts most comes first, for a limit may end
// the walk before its end: an agent can fill the tree. Of the others it is the last
// one, so that what is open stays small.
func (w *walker) next() task {
	turn := slices.IndexFunc(w.tasks[:], func(tasks []task) bool { return len(tasks) > 0 })
	tasks := w.tasks[turn]
	t := tasks[len(tasks)-1]
	w.tasks[turn] = tasks[:len(tasks)-1]
	w.left--
	return t
}

// take adds what a reader has found. The lock is held.
func (w *walker) take(r *reader, err error) {
	if err != nil && !errors.Is(err, unix.ENOENT) {
		w.out.Closed++
	}
	w.out.Entries += r.entries
	w.out.Cut = w.out.Cut || r.cut
	w.out.Found = append(w.out.Found, r.found...)
	for _, t := range r.tasks {
		w.add(t)
	}
	if w.out.Entries > w.limits.Entries || len(w.out.Found) > w.limits.Found || time.Now().After(w.deadline) {
		w.out.Cut = w.out.Cut || w.left > 0
		w.stopped = true
	}
	if len(r.tasks) > 0 || w.left == 0 || w.stopped {
		w.some.Broadcast()
	}
}

// reader reads one directory after the other.
type reader struct {
	*walker
	buf []byte

	// Of the directory that was read last.
	entries int
	crowd   int  // things that count of which there can be any number
	cut     bool // there were more than are taken
	found   []Found
	tasks   []task
	marks   protect.Marks
	inner   []inner
}

// inner is an entry that counts if its directory is a repository.
type inner struct {
	name string
	kind protect.Kind
}

func (r *reader) read(t task) error {
	r.entries, r.crowd, r.cut, r.found, r.tasks, r.marks, r.inner = 0, 0, false, r.found[:0], r.tasks[:0], 0, r.inner[:0]
	fd, err := openDir(r.root, t.rel)
	if errors.Is(err, unix.EACCES) && t.rel != "." && r.ours(t.rel) {
		r.found = append(r.found, Found{Path: t.rel, Kind: protect.Directory, Rule: protect.ClosedRule})
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Getdents(fd, r.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			break
		}
		r.dirents(fd, t, r.buf[:n])
	}
	if r.marks.Bare() {
		r.bare(t)
	}
	return nil
}

// dirents reads the records of getdents64(2): inode 8, offset 8, length 2,
// type 1, name.
func (r *reader) dirents(fd int, t task, b []byte) {
	for len(b) >= 19 {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < 19 || size > len(b) {
			return
		}
		kind, name := b[18], b[19:size]
		b = b[size:]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if len(name) == 0 || name[0] == '.' && (len(name) == 1 || len(name) == 2 && name[1] == '.') {
			continue
		}
		r.entries++
		r.entry(t, name, kindOf(fd, name, kind))
	}
}

func (r *reader) entry(t task, name []byte, kind protect.Kind) {
	v := r.set.Entry(t.in, name, kind)
	r.marks |= v.Mark
	if v.Inner {
		r.inner = append(r.inner, inner{string(name), kind})
	}
	if v.Rule == nil && !v.Enter {
		return
	}
	rel := path.Join(t.rel, string(name))
	if v.Rule != nil && (v.Member || strings.HasPrefix(v.Rule.Path, "*")) {
		// One directory alone can have millions, for each of which a file would be
		// opened. What has a name of its own is still found, and the repository.
		if r.crowd++; r.crowd > r.limits.Found/2 {
			r.cut = true
			return
		}
	}
	if v.Rule != nil {
		r.found = append(r.found, Found{Path: rel, Kind: kind, Rule: v.Rule, Member: v.Member})
	}
	if v.Enter {
		r.tasks = append(r.tasks, task{rel, v.In})
	}
}

// bare takes a directory for a repository, beside what else it is: otherwise
// three names would hide all that lies in it.
func (r *reader) bare(t task) {
	r.found = append(r.found, Found{Path: t.rel, Kind: protect.Directory, Rule: r.set.Bare()})
	for _, e := range r.inner {
		r.entry(task{t.rel, protect.Repository}, []byte(e.name), e.kind)
	}
}
