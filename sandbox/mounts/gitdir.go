package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// gitFileLimit bounds the small files in git directories; a path fits.
const gitFileLimit = 8192

// findRepository looks for .git in dir and above, as git does. It returns nil
// when there is none.
func findRepository(dir string) (*repository, error) {
	for root := dir; ; root = filepath.Dir(root) {
		path := filepath.Join(root, ".git")
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%q: %v", path, errnoText(err))
			}
		case info.IsDir():
			if _, err := os.Lstat(filepath.Join(path, "HEAD")); err != nil {
				break // an empty .git is none (setup.c, is_git_directory)
			}
			return &repository{root: root, dir: path, common: path, abs: true}, nil
		case info.Mode().IsRegular():
			return readLink(root)
		default:
			return nil, fmt.Errorf("%q is neither a directory nor a file", path)
		}
		if root == "/" {
			return nil, nil
		}
	}
}

// readLink follows root/.git, a file that names the git directory
// (gitrepository-layout(5)). It only reads; verify decides.
func readLink(root string) (*repository, error) {
	path := filepath.Join(root, ".git")
	b, err := readSmall(root, ".git", gitFileLimit)
	if err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(string(b), "gitdir: ")
	name = strings.TrimRight(name, "\r\n")
	if !ok || name == "" || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("%q is not a git file", path)
	}
	r := &repository{root: root, link: true, abs: filepath.IsAbs(name)}
	if r.dir, err = realFrom(root, name); err != nil {
		return nil, fmt.Errorf("%q names the git directory %q: %v", path, name, errnoText(err))
	}
	r.common = r.dir
	b, err = readSmall(r.dir, "commondir", gitFileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	name = strings.TrimRight(string(b), "\r\n")
	if r.common, err = realFrom(r.dir, name); err != nil {
		return nil, fmt.Errorf("%q names the git directory %q: %v", r.dir+"/commondir", name, errnoText(err))
	}
	return r, nil
}

func realFrom(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.EvalSymlinks(name)
}

// openGitDir opens the common git directory and verifies it. The agent of an
// earlier run may have written .git and all that lies in the project, so only
// what points back from outside counts.
func (p *Plan) openGitDir(places []place, h Host, r *repository) (*source, error) {
	if judged := judgeGitDir(places, h, r); judged != nil {
		return nil, judged
	}
	common, err := p.openReal(r.common)
	if err != nil {
		return nil, err
	}
	if common.uid != h.UID {
		return nil, fmt.Errorf("%q belongs to uid %d, not to you", r.common, common.uid)
	}
	for _, name := range []string{"objects", "refs"} {
		s, err := p.openIn(common, name)
		if err != nil || !s.dir {
			return nil, fmt.Errorf("%q is not a git directory: no directory %s", r.common, name)
		}
	}
	if _, err := readBeneath(common.file, "HEAD", gitFileLimit); err != nil {
		return nil, fmt.Errorf("%q is not a git directory: no file HEAD", r.common)
	}
	if !r.link {
		return common, nil
	}
	link, err := p.openReal(filepath.Join(r.root, ".git"))
	if err != nil {
		return nil, err
	}
	return common, cmp.Or(link.oneName(), pointsBack(common, r))
}

// judgeGitDir applies the rules of directories to the git directory, as if
// the directory that holds it were the project: ~/.git would bring the
// history of every file at home.
func judgeGitDir(places []place, h Host, r *repository) error {
	holder, _, _ := strings.Cut(r.common+"/", "/.git/")
	holder = filepath.Clean("/" + holder)
	for _, dir := range []string{holder, r.root} {
		if j := judge(places, h, dir); j != nil {
			return fmt.Errorf("%s is left out: %w", r.common, j.refusal(dir))
		}
	}
	return nil
}

// pointsBack checks that the git directory knows the work tree that names it.
func pointsBack(common *source, r *repository) error {
	link := filepath.Join(r.root, ".git")
	if r.dir == r.common {
		// A submodule: its git directory names the work tree in core.worktree.
		b, err := readBeneath(common.file, "config", 1<<20)
		if err != nil {
			return fmt.Errorf("%q: %v", r.common+"/config", errnoText(err))
		}
		tree := coreWorktree(string(b))
		if tree == "" {
			return fmt.Errorf("nothing in %q says that it belongs to %q; git in there needs --mount", r.common, r.root)
		}
		if real, err := realFrom(r.dir, tree); err != nil || real != r.root {
			return fmt.Errorf("%q belongs to %q, not to %q", r.common, tree, r.root)
		}
		return nil
	}
	rel, err := filepath.Rel(r.common, r.dir)
	if err != nil || filepath.Dir(rel) != "worktrees" {
		return fmt.Errorf("%q is not a work tree of %q", r.dir, r.common)
	}
	b, err := readBeneath(common.file, filepath.Join(rel, "gitdir"), gitFileLimit)
	if err != nil {
		return fmt.Errorf("%q: %v", r.dir+"/gitdir", errnoText(err))
	}
	back := strings.TrimRight(string(b), "\r\n")
	if real, err := realFrom(r.dir, back); err != nil || real != link {
		return fmt.Errorf("%q belongs to %q, not to %q; git worktree repair mends it", r.dir, back, link)
	}
	return nil
}

// coreWorktree finds core.worktree in a git configuration file, in the form
// that git itself writes it (git-config(1), "Syntax"). Anything fancier is not
// found, and the repository then left out.
func coreWorktree(config string) string {
	core, found := false, ""
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			core = strings.EqualFold(line, "[core]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !core || !ok || !strings.EqualFold(strings.TrimSpace(key), "worktree") {
			continue
		}
		value = strings.TrimSpace(value)
		if v, quoted := strings.CutPrefix(value, `"`); quoted {
			value = strings.TrimSuffix(v, `"`)
		}
		if strings.ContainsAny(value, "\\\"#;") {
			return ""
		}
		found = value
	}
	return found
}
