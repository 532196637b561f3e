//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// executables makes a project with a commit and one of each kind of what the host
// would execute.
func executables(t *testing.T) string {
	t.Helper()
	dir := project(t)
	asUser(t, "sh", "-ec", `cd "$1"; git init -q -b main; git config user.name U; git config user.email u@example.com
		mkdir -p .vscode .husky .cargo .venv/bin .claude .github/workflows packages/a/.idea .githooks tools gradle/wrapper
		for f in .vscode/tasks.json .husky/pre-commit .cargo/config.toml .venv/bin/activate .claude/settings.json .github/workflows/ci.yml \
			packages/a/.idea/workspace.xml packages/a/.npmrc .githooks/pre-push tools/clean.sh gradle/wrapper/gradle-wrapper.jar \
			.envrc .mcp.json one.code-workspace .exrc file; do echo original >$f; done
		git config core.hooksPath .githooks; git config filter.f.clean 'sh tools/clean.sh'
		git add -f .; git commit -qm first`, "sh", dir)
	return dir
}

// protectedPaths are the files in it.
const protectedPaths = `.git/config .vscode/tasks.json .husky/pre-commit .cargo/config.toml .venv/bin/activate .claude/settings.json
	.github/workflows/ci.yml packages/a/.idea/workspace.xml packages/a/.npmrc .githooks/pre-push tools/clean.sh gradle/wrapper/gradle-wrapper.jar
	.envrc .mcp.json one.code-workspace .exrc`

// T15: nothing that the host would execute can be changed, replaced or moved away,
// by whatever way, nor a directory above it, and nothing of aisb's is left.
func TestPivotAttacks(t *testing.T) {
	dir := executables(t)
	before := asUser(t, "sh", "-c", `cd "$1"; sha256sum `+strings.ReplaceAll(protectedPaths, "\n", " "), "sh", dir)
	o := call{dir: dir}.aisb(t, allowed, sh(`set -f; mkdir /tmp/w; echo evil >/tmp/w/evil
		try() { "$@" 2>/dev/null && echo "could: $*"; }
		for f in `+strings.ReplaceAll(protectedPaths, "\n", " ")+`; do
			[ -f "$f" ] || echo "not there: $f"
			try sh -c 'echo x >"$1"' sh $f; try sh -c 'echo x >>"$1"' sh $f; try truncate -s 0 $f; try sed -i s/o/x/ $f
			echo evil >evil; try mv -f evil $f; try ln -sfT evil $f; try ln -fT evil $f; try ln $f name; try cp --remove-destination evil $f
			try rm -f $f; try mv $f gone; try chmod 755 $f; try touch -c $f; try setfattr -n user.x -v y $f
			python3 -c 'import os,sys,ctypes
for flags in (0, 1, 2):
    if ctypes.CDLL(None).renameat2(-100, b"evil", -100, sys.argv[1].encode(), flags) == 0: print("could: renameat2", flags, sys.argv[1])
try:
    os.open(sys.argv[1], os.O_RDWR); print("could: open for writing", sys.argv[1])
except OSError: pass
try:
    os.open("/proc/self/fd/%d" % os.open(sys.argv[1], os.O_RDONLY), os.O_RDWR); print("could: open again", sys.argv[1])
except OSError: pass' $f
			d=$(dirname $f)
			while [ "$d" != . ]; do
				try mv $d gone; try mv -T gone $d; try rmdir $d; try ln -sfT /tmp/w $d; mkdir -p empty
				python3 -c 'import sys,ctypes
if ctypes.CDLL(None).renameat2(-100, b"empty", -100, sys.argv[1].encode(), 2) == 0: print("could: exchange", sys.argv[1])' $d
				d=$(dirname $d)
			done
		done
		rm -rf .git/hooks .vscode packages .venv 2>/dev/null
		try mkdir -p .vscode/sub; try touch .githooks/post-checkout; try touch .venv/bin/ls; try mount --bind /tmp/w .vscode; try umount .vscode
		for f in `+strings.ReplaceAll(protectedPaths, "\n", " ")+`; do [ -f "$f" ] || echo "gone: $f"; done
		rm -rf evil empty gone name # mv copies across mounts before it fails
`)...)
	o.wantStatus(t, 0)
	if o.stdout != "" {
		t.Errorf("%s", o.stdout)
	}
	if after := asUser(t, "sh", "-c", `cd "$1"; sha256sum `+strings.ReplaceAll(protectedPaths, "\n", " "), "sh", dir); after != before {
		t.Errorf("changed:\n%s\nwas:\n%s", after, before)
	}
	if got := asUser(t, "git", "-C", dir, "-c", "core.hooksPath=/dev/null", "status", "--porcelain", "--ignored"); got != "" {
		t.Errorf("left in the project: %q", got)
	}
	wantNot(t, "receipt", o.stderr, "warning: new", "warning: changed")
}

// Ordinary work with git goes on, and the receipt has nothing to say of it.
func TestGitUnderProtection(t *testing.T) {
	dir := executables(t)
	asUser(t, "sh", "-ec", `cd "$1"; git config --unset core.hooksPath; git config --unset filter.f.clean
		git init -q --bare -b main ../$(basename "$1").git; git remote add origin ../$(basename "$1").git
		mv ../$(basename "$1").git origin.git; git config remote.origin.url ./origin.git; echo origin.git >>.git/info/exclude; git push -q origin main`, "sh", dir)
	flags := append([]string{"-e", "GIT_AUTHOR_NAME=A", "-e", "GIT_AUTHOR_EMAIL=a@example.com",
		"-e", "GIT_COMMITTER_NAME=A", "-e", "GIT_COMMITTER_EMAIL=a@example.com"}, allowed...)
	o := call{dir: dir}.aisb(t, flags, sh(`set -e; exec 2>&1
		git checkout -q -b work; echo 1 >>file; git commit -qam one; echo 2 >>file; git stash -q; git stash pop -q; git commit -qam two
		git checkout -q main; echo m >other; git add other; git commit -qm other; git checkout -q work; git rebase -q main
		git worktree add -q /tmp/wt -b side; (cd /tmp/wt; echo w >w; git add w; git commit -qm w); git worktree remove /tmp/wt; git merge -q side
		git tag v1; git bisect start HEAD main >/dev/null; git bisect reset >/dev/null 2>&1
		git push -q origin work; git fetch -q; git gc -q; git clone -q origin.git /tmp/clone
		git cherry-pick --allow-empty main >/dev/null 2>&1 || git cherry-pick --abort; git reset -q --hard work; git status --short; git log --oneline | wc -l`)...)
	o.wantStatus(t, 0)
	if strings.TrimSpace(o.stdout) != "5" {
		t.Errorf("git says:\n%s", o.stdout)
	}
	wantNot(t, "receipt", o.stderr, "warning: new", "warning: changed")
	// What writes the configuration fails, and says so.
	o = call{dir: dir}.aisb(t, flags, sh(`for c in 'config a.b c' 'remote add x y' 'config core.fsmonitor x'; do git $c 2>/dev/null && echo "git $c"; done
		git branch --show-current; ls .git/*.lock 2>/dev/null; git status --short`)...)
	o.wantStatus(t, 0)
	if o.stdout != "work\n" {
		t.Errorf("%s", o.stdout)
	}
}

// What comes to be is told while the command runs and in the receipt, or moved out
// of the project.
func TestPlantedIsReported(t *testing.T) {
	plant := `mkdir -p sub/.vscode bare/objects bare/refs; echo x >.envrc; echo x >sub/.vscode/tasks.json
		echo 'ref: refs/heads/main' >bare/HEAD; printf '[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch /tmp/pwned\n' >bare/config
		git init -q nested; ln -s /etc/passwd .exrc; echo changed >>.git/info/exclude; echo x >>.npmrc; printf '[alias]\n\tst = !sh\n' >>.git/config`
	prepare := func(t *testing.T) string {
		dir := project(t)
		asUser(t, "sh", "-ec", `cd "$1"; git init -q -b main; echo a >.npmrc`, "sh", dir)
		return dir
	}
	flags := append([]string{"--no-protect", ".npmrc", "--no-protect", ".git/config"}, allowed...)
	dir := prepare(t)
	l := call{dir: dir}.start(t, flags, sh(plant+"\necho ready; read x")...)
	l.waitOut("ready\n")
	l.waitErr(`aisb: warning: ".envrc" has appeared`)
	l.say("")
	o := l.wait(dogLimit)
	o.wantStatus(t, 0)
	wantIn(t, "receipt", o.stderr, "warning: new: .envrc (", "warning: new: sub/.vscode (", "warning: new: bare (", "sets core.worktree, core.fsmonitor",
		"warning: new: nested/.git (", "warning: new: .exrc (", "a symbolic link", "warning: changed: .npmrc (", "warning: changed: .git/config (", "sets alias.st",
		"--on-new-exec-config quarantine")
	wantNot(t, "receipt", o.stderr, "nested/.git/config", "info/exclude")
	if _, err := os.Lstat(filepath.Join(dir, ".envrc")); err != nil {
		t.Errorf("it was only to be reported: %v", err)
	}

	dir = prepare(t)
	o = call{dir: dir}.aisb(t, append([]string{"--on-new-exec-config", "quarantine"}, flags...), sh(plant)...)
	o.wantStatus(t, 0)
	wantIn(t, "receipt", o.stderr, "warning: new: .envrc (", "moved to "+filepath.Join(xdg, "state/aisb/quarantine/aisb-"))
	for _, name := range []string{".envrc", "sub/.vscode", "bare/HEAD", "bare/config", "nested/.git", ".exrc"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
		if found, err := filepath.Glob(filepath.Join(xdg, "state/aisb/quarantine/*", name)); err != nil || len(found) == 0 {
			t.Errorf("%s is not in quarantine: %v", name, err)
		}
	}
	for _, name := range []string{".npmrc", ".git/config", "bare/objects"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The host's own git replaces its configuration, and the mount in the sandbox goes
// with the old one: the run is ended before long.
func TestHostReplacesProtected(t *testing.T) {
	gone := wantNothingLeft(t)
	dir := executables(t)
	l := call{dir: dir}.start(t, allowed, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	asUser(t, "git", "-C", dir, "config", "user.name", "Other")
	o := l.wait(dogLimit)
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, `the mount on "/project/.git/config" is gone`, "aisb: hint: ", "warning: changed: .git/config")
	gone()
}

// Links that one run leaves are not followed by the next (T20), and flags say what
// is meant.
func TestProtectFlags(t *testing.T) {
	dir := project(t)
	secret := write(t, project(t), "secret", "secret")
	o := call{dir: dir}.aisb(t, allowed, "ln", "-s", secret, ".envrc")
	o.wantStatus(t, 0)
	o = call{dir: dir}.aisb(t, allowed, "cat", ".envrc")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, `aisb: error: ".envrc" is a symbolic link`, "aisb: hint: ", "--no-protect .envrc")
	o = call{dir: dir}.aisb(t, append([]string{"--no-protect", ".envrc"}, allowed...), "cat", ".envrc")
	o.wantStatus(t, 1)
	wantNot(t, "output", o.stdout, "secret")
	write(t, dir, "deploy.sh", "original\n")
	o = call{dir: dir}.aisb(t, append([]string{"--protect", "deploy.sh", "--no-protect", ".envrc"}, allowed...), sh("echo x >>deploy.sh; rm .envrc; cat deploy.sh")...)
	o.wantStatus(t, 0)
	if o.stdout != "original\n" {
		t.Errorf("%q", o.stdout)
	}
	// A project that can't be written to needs nothing of it.
	o = call{dir: executables(t)}.aisb(t, append([]string{"--project-ro"}, allowed...), sh("git log --format=%s; grep -c /project /proc/self/mountinfo")...)
	o.wantStatus(t, 0)
	if o.stdout != "first\n1\n" {
		t.Errorf("%q", o.stdout)
	}
}

// A git directory outside of the project, of a worktree or a repository above, and
// those of submodules are protected, too, and commits go on.
func TestOutsideGitIsProtected(t *testing.T) {
	top := project(t)
	asUser(t, "sh", "-ec", `cd "$1"; git init -q -b main lib; cd lib; git config user.name U; git config user.email u@example.com; echo l >l; git add .; git commit -qm l
		cd ..; git init -q -b main repo; cd repo; git config user.name U; git config user.email u@example.com; mkdir sub; echo s >sub/s; git add .; git commit -qm s
		git -c protocol.file.allow=always submodule --quiet add file://"$1"/lib vendor/lib; git commit -qm sub; git worktree add -q ../tree`, "sh", top)
	repo := filepath.Join(top, "repo")
	config, err := os.ReadFile(filepath.Join(repo, ".git/config"))
	if err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"-e", "GIT_AUTHOR_NAME=A", "-e", "GIT_AUTHOR_EMAIL=a@example.com",
		"-e", "GIT_COMMITTER_NAME=A", "-e", "GIT_COMMITTER_EMAIL=a@example.com"}, allowed...)
	for _, tt := range []struct{ dir, commit string }{
		{repo + "/sub", "echo 2 >s; git commit -qam two"},
		{top + "/tree", "echo 3 >sub/s; git commit -qam three"},
		{repo, "cd vendor/lib; echo 4 >l; git commit -qam four; cd ../..; git commit -qam lib"},
	} {
		o := call{dir: tt.dir}.aisb(t, flags, sh(`set -e; `+tt.commit+`; set +e
			g=$(git rev-parse --git-common-dir); for f in $g/config $g/hooks/pre-commit.sample $g/worktrees/tree/gitdir $g/worktrees/tree/commondir $g/modules/vendor/lib/config; do
				[ -f $f ] || echo "no $f"; (echo x >>$f) 2>/dev/null && echo "wrote $f"; rm -f $f 2>/dev/null && echo "removed $f"; done
			for f in .git vendor/lib/.git; do [ -f $f ] && (echo x >>$f) 2>/dev/null && echo "wrote $f"; done
			for d in $g/hooks $g/worktrees $g/worktrees/tree $g/modules $g/modules/vendor; do mv $d $d.away 2>/dev/null && echo "moved $d"; done; true`)...)
		o.wantStatus(t, 0)
		if o.stdout != "" {
			t.Errorf("in %s: %s", tt.dir, o.stdout)
		}
		wantNot(t, "receipt", o.stderr, "warning: new", "warning: changed")
	}
	if now, err := os.ReadFile(filepath.Join(repo, ".git/config")); err != nil || string(now) != string(config) {
		t.Errorf("the configuration is %q, %v", now, err)
	}
	if got := asUser(t, "git", "-C", repo, "log", "--all", "--format=%s"); !strings.Contains(got, "two\n") || !strings.Contains(got, "three\n") || !strings.Contains(got, "lib\n") {
		t.Errorf("the host sees %q", got)
	}
}
