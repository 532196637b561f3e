package doctor

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
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var reCommit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })

// gitState asks git for uncommitted work. An agent may have written the
// repository, and "git status" runs what its configuration names (fsmonitor,
// filters, hooks). So git gets an empty git directory of our own, with nothing
// of the repository but its commit, its objects and its index.
func gitState(ctx context.Context, dir string) Git {
	root, gitDir := findGit(dir)
	if root == "" {
		return Git{}
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return Git{Root: root, Err: "there is no git in PATH to ask"}
	}
	own, err := os.MkdirTemp("", "aisb-doctor-")
	if err != nil {
		return Git{Root: root, Err: err.Error()}
	}
	defer os.RemoveAll(own)
	env, err := ownGitDir(own, root, gitDir)
	if err != nil {
		return Git{Root: root, Err: err.Error()}
	}
	o := run(ctx, quick, command{path: git, dir: root, env: env,
		// --ignore-submodules: git would follow those into repositories of their own.
		args: []string{"status", "--porcelain", "-z", "--ignore-submodules=all", "--untracked-files=normal", "--no-renames"}})
	return judgeStatus(root, o)
}

func judgeStatus(root string, o Output) Git {
	g := Git{Root: root}
	switch {
	case o.TimedOut > 0:
		g.Err = fmt.Sprintf("git status did not end within %v", o.TimedOut)
	case !o.fine():
		g.Err = "git status: " + firstLine(o.Errors+o.Err)
	}
	for entry := range strings.SplitSeq(o.Text, "\x00") {
		switch {
		case len(entry) < 4:
		case strings.HasPrefix(entry, "?? "):
			g.New++
		default:
			g.Changed++
		}
	}
	return g
}

// findGit looks for .git in dir and above, as git does.
func findGit(dir string) (root, gitDir string) {
	for root := dir; filepath.IsAbs(root); root = filepath.Dir(root) {
		path := filepath.Join(root, ".git")
		if info, err := os.Lstat(path); err == nil {
			if info.IsDir() {
				return root, path
			}
			// A worktree's or submodule's: gitrepository-layout(5).
			text, err := readSmall(path)
			if name, ok := strings.CutPrefix(text, "gitdir: "); ok && err == nil {
				return root, from(root, strings.TrimSpace(name))
			}
		}
		if root == "/" {
			break
		}
	}
	return "", ""
}

func from(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// ownGitDir makes the git directory in own, and returns git's whole environment.
func ownGitDir(own, root, gitDir string) ([]string, error) {
	common := gitDir
	if text, err := readSmall(filepath.Join(gitDir, "commondir")); err == nil {
		common = from(gitDir, strings.TrimSpace(text))
	}
	commit, err := headCommit(gitDir, common)
	if err != nil {
		return nil, err
	}
	config := "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
	if len(commit) == 64 {
		config += "[extensions]\n\tobjectformat = sha256\n"
	}
	if commit == "" {
		commit = "ref: refs/heads/unborn"
	}
	err = errors.Join(
		os.Mkdir(filepath.Join(own, "refs"), 0o700),
		os.WriteFile(filepath.Join(own, "HEAD"), []byte(commit+"\n"), 0o600),
		os.WriteFile(filepath.Join(own, "config"), []byte(config), 0o600),
	)
	// The ignore rules that lie in the repository are data too.
	if text, readErr := readSmall(filepath.Join(common, "info/exclude")); readErr == nil {
		err = errors.Join(err, os.Mkdir(filepath.Join(own, "info"), 0o700),
			os.WriteFile(filepath.Join(own, "info/exclude"), []byte(text), 0o600))
	}
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "XDG_CONFIG_HOME=" + os.Getenv("XDG_CONFIG_HOME"), "LC_ALL=C",
		// The user's filters may name programs of the work tree. Without them a
		// file may count as changed that is not.
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_DIR=" + own, "GIT_WORK_TREE=" + root,
		"GIT_INDEX_FILE=" + filepath.Join(gitDir, "index"), "GIT_OBJECT_DIRECTORY=" + filepath.Join(common, "objects"),
		"GIT_OPTIONAL_LOCKS=0", // or it would write the index anew
		"GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
	}, err
}

// headCommit is the commit that is checked out, "" before the first.
func headCommit(gitDir, common string) (string, error) {
	head, err := readSmall(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	head = strings.TrimSpace(head)
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		if !reCommit().MatchString(head) {
			return "", errors.New("HEAD names no commit")
		}
		return head, nil
	}
	if ref = filepath.Clean(ref); !strings.HasPrefix(ref, "refs/") || strings.HasSuffix(ref, "/.invalid") {
		return "", errors.New("HEAD names a reference of a kind that aisb can't read")
	}
	for _, dir := range []string{gitDir, common} {
		text, err := readSmall(filepath.Join(dir, ref))
		if commit := strings.TrimSpace(text); err == nil && reCommit().MatchString(commit) {
			return commit, nil
		}
	}
	packed, err := readLimited(filepath.Join(common, "packed-refs"), 16<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read packed-refs: %w", err)
	}
	for line := range strings.Lines(packed) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == ref && reCommit().MatchString(commit) {
			return commit, nil
		}
	}
	return "", nil
}

func readSmall(path string) (string, error) { return readLimited(path, 1<<20) }

// readLimited reads a plain file: an agent may have left a pipe there.
func readLimited(path string, most int64) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no plain file", path)
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, most+1))
	if n > most {
		return "", fmt.Errorf("%s is too large", path)
	}
	return b.String(), err
}
