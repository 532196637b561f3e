package mounts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// repository is where git's directories of a project lie. All paths are real.
type repository struct {
	root   string // top of the work tree: .git lies there
	link   bool   // .git is a file that names dir
	dir    string // git directory of this work tree
	common string // git directory that all work trees of the repository share
	abs    bool   // the link names dir by an absolute path
}

// fillLimit is how many files git may have to write into a stand-in for the
// rest of a work tree before the first command runs: about a second.
const fillLimit = 20000

// addGit mounts what git needs beside the project. A repository that can't be
// verified is left out with a warning: then git doesn't work inside, which is
// safe.
func (p *Plan) addGit(places []place, h Host, o Options, project *source) error {
	repo, err := findRepository(project.path)
	if err != nil {
		p.warnf("git won't work in the sandbox: %v", err)
		return nil
	}
	if repo == nil {
		return nil
	}
	// A prune inside would see none of the other work trees' directories and
	// forget them (git-worktree(1), gc.worktreePruneExpire).
	p.GitConfig = append(p.GitConfig, [2]string{"gc.worktreePruneExpire", "never"})
	p.workTree = repo.root
	p.warnAlternates(repo.common)
	if within(repo.dir, project.path) && within(repo.common, project.path) {
		if !repo.link || !repo.abs {
			return nil
		}
		if err := checkRecorded(repo, project.path); err != nil {
			p.warnf("git won't work in the sandbox: %v", err)
			return nil
		}
		p.recordProject(project, o, repo)
		return nil
	}
	if o.NoGit {
		p.notef("git won't work in the sandbox: %s is left out (--no-git-dir)", repo.common)
		return nil
	}
	common, err := p.openGitDir(places, h, repo)
	if err == nil {
		err = checkRecorded(repo, project.path)
	}
	if err != nil {
		p.warnf("git won't work in the sandbox: %v", err)
		return nil
	}
	return p.mountRepository(o, project, repo, common)
}

// mountRepository adds the common git directory at its recorded path, and the
// project at its own where git needs it there.
func (p *Plan) mountRepository(o Options, project *source, repo *repository, common *source) error {
	p.notef("the git directory %s is mounted too, with the whole history in it", repo.common)
	ro := o.ReadOnly
	sub, err := filepath.Rel(repo.root, project.path)
	if err != nil {
		return err
	}
	if sub != "." {
		if ro, err = p.standIn(o, repo, sub); err != nil {
			return err
		}
		if repo.link {
			link, err := p.openReal(filepath.Join(repo.root, ".git"))
			if err != nil {
				return err
			}
			p.Mounts = append(p.Mounts, link.mount(link.path, true))
		}
	}
	p.gitDir = repo.common
	p.Mounts = append(p.Mounts, common.mount(repo.common, ro))
	if sub != "." || !repo.abs || repo.dir == repo.common {
		p.recordProject(project, o, repo)
	}
	return nil
}

// checkRecorded judges the paths of the host that would be the container's too.
func checkRecorded(repo *repository, project string) error {
	for _, target := range []string{repo.root, repo.common, project} {
		if within(target, Project) {
			return fmt.Errorf("%q would be in the way of %s in the sandbox", target, Project)
		}
		if r := checkTarget(target); r != nil {
			return fmt.Errorf("it must lie at its own path in the sandbox: %w", r)
		}
	}
	return nil
}

// recordProject mounts the project at the path that it has on the host as well
// and makes that the working directory: git finds a repository, and the place
// of the project in it, from the current directory alone.
func (p *Plan) recordProject(project *source, o Options, repo *repository) {
	p.Mounts = append(p.Mounts, project.mount(project.path, o.ReadOnly))
	p.Projects = append(p.Projects, project.path)
	p.Workdir = project.path
	// The mount is a boundary that git's search stops at.
	p.Env = append(p.Env, "GIT_DISCOVERY_ACROSS_FILESYSTEM=1")
	p.notef("the project is at %s too, and the command starts there: git needs it at its place in %s", project.path, repo.root)
}

// standIn makes the top of a work tree of which only sub is mounted, and says
// whether git must be read-only. With nothing in the place of the other files
// git takes them for deleted, and "git commit -a" would delete them from the
// repository; so the rest is filled from the index, in the sandbox, where git
// may run what the repository says. Where that isn't possible commits aren't.
func (p *Plan) standIn(o Options, repo *repository, sub string) (readOnly bool, err error) {
	n, err := indexEntries(repo.dir)
	reason := ""
	switch {
	case o.ReadOnly:
		reason = "the project is read-only"
	case o.Scratch == "":
		reason = "there is no directory for the rest of its files"
	case err != nil:
		reason = fmt.Sprintf("its index can't be read (%v)", err)
	case n > fillLimit:
		reason = fmt.Sprintf("it has %d files, more than %d", n, fillLimit)
	}
	if reason != "" {
		p.GitConfig = append(p.GitConfig, [2]string{"safe.directory", repo.root})
		p.notef("git can read but not commit in a subdirectory of %s: %s", repo.root, reason)
		p.notef("to commit, run aisb in %s with -w %s", repo.root, sub)
		return true, nil
	}
	// The mount points are made here, by the user: a container engine would
	// make them for itself, and git then refuses the work tree of another owner.
	top := filepath.Join(o.Scratch, "worktree")
	err = os.MkdirAll(o.Scratch, 0o700)
	if err == nil {
		err = os.MkdirAll(filepath.Join(top, sub), 0o755)
	}
	if err == nil {
		err = makeMountPoint(filepath.Join(top, ".git"), repo.link)
	}
	if err != nil {
		return false, fmt.Errorf("make work tree: %w", err)
	}
	s, err := p.open(top)
	if err != nil {
		return false, fmt.Errorf("make work tree: %w", err)
	}
	p.Mounts = append(p.Mounts, s.mount(repo.root, false))
	p.Prelude = []string{"/bin/sh", "-c", fillScript, "aisb-git", repo.root, sub}
	return false, nil
}

// fillScript writes what the index has outside of $2 to the work tree $1. git
// has no quiet way to skip the big files' download of git-lfs but its variable.
const fillScript = `root=$1 sub=$2; shift 2
if command -v git >/dev/null; then
	git -C "$root" ls-files -z -- . ":(exclude,top,literal)$sub" |
		GIT_LFS_SKIP_SMUDGE=1 git -C "$root" checkout-index -q -z --stdin ||
		echo "aisb: warning: git could not fill $root: it may show files as deleted" >&2
fi
exec "$@"`

func makeMountPoint(path string, file bool) error {
	if !file {
		return os.Mkdir(path, 0o755)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// indexEntries reads the number of entries off the head of git's index
// (gitformat-index(5)).
func indexEntries(dir string) (uint32, error) {
	f, err := openRegular(dir, "index")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // nothing added yet
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [12]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, err
	}
	if string(head[:4]) != "DIRC" {
		return 0, errors.New("no signature")
	}
	return binary.BigEndian.Uint32(head[8:]), nil
}

// warnAlternates tells of objects that lie in another repository. The file is
// the agent's to write, so what it names is never mounted, and it may be a FIFO
// that nobody writes to, or a link to a device or a secret.
func (p *Plan) warnAlternates(common string) {
	b, err := readSmall(common, "objects/info/alternates", 1<<20)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			p.warnf("git will miss objects in the sandbox: the repository borrows them from %q, see git-repack(1) -a -d", line)
			return
		}
	}
}
