//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// found is a place that holds a canary.
type found struct{ where, form, of string }

// sweep looks for canaries in all that a run may leave something in.
type sweep struct {
	forms []form

	mu     sync.Mutex
	found  []found
	failed []error
	files  int
	older  int // files that nothing has changed since before the tests
	bytes  int64
	procs  int
	more   []string // what else was searched
}

// sweepAll searches the files of the user and of the machine's places for
// temporary ones, the journal, and processes.
func sweepAll() *sweep {
	s := &sweep{forms: formsOf(canaryStem)}
	paths := make(chan string, 64)
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for path := range paths {
				s.file(path)
			}
		})
	}
	for _, top := range s.places() {
		s.walk(top, paths)
	}
	close(paths)
	readers.Wait()
	s.journal()
	s.processes()
	slices.SortFunc(s.found, func(a, b found) int { return strings.Compare(a.where, b.where) })
	return s
}

// places are the home (aisb's state and podman's store lie there, unless podman says
// otherwise), the run-time directory, and what is everybody's.
func (s *sweep) places() []string {
	list := []string{agent.home, agent.runtime, xdg, "/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/run/log", "/var/log", "/var/crash", "/var/lib/systemd/coredump"}
	out, err := (call{dir: agent.home, bin: "/usr/bin/podman"}).command(context.Background(), "info", "--format", "{{.Store.GraphRoot}}\n{{.Store.RunRoot}}\n{{.Store.VolumePath}}").Output()
	if err != nil {
		s.fail(fmt.Errorf("podman info: %w", err))
	}
	list = append(list, strings.Fields(string(out))...)
	slices.Sort(list) // one in another comes after it
	var tops []string
	for _, p := range list {
		if !slices.ContainsFunc(tops, func(top string) bool { return p == top || strings.HasPrefix(p, top+"/") }) && exists(p) {
			tops = append(tops, p)
		}
	}
	return tops
}

// fail notes what could not be searched. What went meanwhile is no loss. Only a file system
// in the user's own hands is closed to root, such as a desktop's (mount.fuse3(8), allow_root):
// that is told.
func (s *sweep) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, fs.ErrPermission):
		s.more = append(s.more, err.Error())
	default:
		s.failed = append(s.failed, err)
	}
}

// hit notes a place if text holds a canary, and of whom.
func (s *sweep) hit(where string, text []byte) {
	form := formOf(s.forms, text)
	if form == "" {
		return
	}
	of := "a test that nobody knows"
	for _, c := range registered() {
		if c.in(text) {
			of = c.of
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := (found{where, form, of}); !slices.Contains(s.found, f) {
		s.found = append(s.found, f)
	}
}

// walk hands out the files below top, and looks at names and at where links lead.
func (s *sweep) walk(top string, paths chan<- string) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			s.fail(err)
			return nil
		}
		s.hit("the name of "+path, []byte(d.Name()))
		switch {
		case d.Type().IsRegular() && s.changed(d):
			paths <- path
		case d.Type()&fs.ModeSymlink != 0:
			if to, err := os.Readlink(path); err == nil {
				s.hit("the link "+path, []byte(to))
			}
		}
		return nil
	})
	if err != nil {
		s.fail(err)
	}
}

// changed reports whether a file can hold a canary: the time of its last change, which
// only the kernel sets (inode(7), ctime), is not before the first canary was made. A store
// of images has gigabytes that were there before.
func (s *sweep) changed(d fs.DirEntry) bool {
	const clockStep = time.Minute
	info, err := d.Info()
	if err != nil {
		return true // reading it will say the same
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && time.Unix(st.Ctim.Unix()).Before(canaries[0].begin.Add(-clockStep)) {
		s.older++
		return false
	}
	return true
}

// chunk is what is read at once. What could lie over the end of one is searched with
// the next.
const chunk = 1 << 20

// search reads to the end. Of an error only the caller knows what it means.
func (s *sweep) search(where string, r io.Reader) error {
	const overlap = 256 // longer than a form of a whole mark
	buf := make([]byte, overlap+chunk)
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		s.mu.Lock()
		s.bytes += int64(n)
		s.mu.Unlock()
		s.hit(where, buf[:kept+n])
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil
			}
			return err
		}
		kept = copy(buf, buf[len(buf)-overlap:])
	}
}

func (s *sweep) file(path string) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		err = s.search(path, f)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files++
}

// journal searches what journald shows, which compresses what is long.
func (s *sweep) journal() {
	dirs, _ := filepath.Glob("/???/log/journal/*") // the pattern is well formed
	if _, err := exec.LookPath("journalctl"); err != nil || len(dirs) == 0 {
		s.more = append(s.more, "no journal here")
		return
	}
	cmd := exec.Command("journalctl", "--quiet", "--output=export", "--since=@"+strconv.FormatInt(canaries[0].begin.Unix(), 10))
	out, err := cmd.Output()
	if err != nil {
		s.fail(fmt.Errorf("journalctl: %w", err))
	}
	s.hit("the journal", out)
	s.more = append(s.more, fmt.Sprintf("%d bytes of the journal", len(out)))
}

// processes searches arguments and environments of all, and the memory of those that
// began after the tests: an older one was given no secret by them. The tests themselves and the
// fakes, which are where the secrets come from, are none of them.
func (s *sweep) processes() {
	ours := startOf(os.Getpid())
	for _, p := range processes() {
		s.procs++
		dir := fmt.Sprintf("/proc/%d/", p.pid)
		name := fmt.Sprintf("%s (%q)", p.comm, p.args[:min(len(p.args), 1)])
		s.hit("the arguments of "+name, []byte(strings.Join(p.args, "\x00")))
		if env, err := os.ReadFile(dir + "environ"); err == nil { // else it has ended
			s.hit("the environment of "+name, env)
		}
		if p.pid == os.Getpid() || p.pid == internet.cmd.Process.Pid || startOf(p.pid) < ours {
			continue
		}
		s.memory("the memory of "+name, dir)
	}
}

func (s *sweep) memory(where, dir string) {
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		return // it has ended
	}
	mem, err := os.Open(dir + "mem")
	if err != nil {
		return
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n == 3 && mode[0] == 'r' && !strings.Contains(line, "[v") {
			// A page that nothing is behind ends it: what is before was searched.
			_ = s.search(where, io.NewSectionReader(mem, from, to-from))
		}
	}
}

// startOf is when a process began, in ticks since the machine did; 0 if it has ended
// (proc_pid_stat(5)).
func startOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") ")) // of the name
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.Atoi(fields[19])
	return n
}

// sweepAfter is for runs in which TestSecretSweep wasn't the last one: what it would say,
// if there were secrets that it didn't know of.
func sweepAfter(before int) int {
	if len(registered()) <= max(before, swept) {
		return 0
	}
	begin := time.Now()
	s := sweepAll()
	for _, f := range s.found {
		fmt.Fprintf(os.Stderr, "e2e: after all tests the secret of %s is in %s (%s)\n", f.of, f.where, f.form)
	}
	for _, err := range s.failed {
		fmt.Fprintln(os.Stderr, "e2e: after all tests:", err)
	}
	fmt.Fprintf(os.Stderr, "e2e: secrets: %s, in %v\n", s, time.Since(begin).Round(time.Millisecond))
	return min(len(s.found)+len(s.failed), 1)
}

// swept is how many canaries TestSecretSweep has known.
var swept int

func (s *sweep) String() string {
	return fmt.Sprintf("%d canaries searched for in %d files (%d MiB; %d more are older than they are), %d processes, %s: found in %d places",
		len(registered()), s.files, s.bytes>>20, s.older, s.procs, strings.Join(s.more, ", "), len(s.found))
}
