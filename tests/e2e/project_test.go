//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Point 7: what is written in /project is the user's on the host, and the user's
// files can be written inside.
func TestPoint7FilesBelongToTheUser(t *testing.T) {
	dir := filepath.Join(project(t), "with space, comma: \"quote\" and ünïcödé")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	old := write(t, dir, "old", "before\n")
	o := call{dir: dir}.aisb(t, allowed, sh(`pwd; cat old; echo after >old; mkdir -p new/dir; echo x >new/dir/file; chmod 755 new/dir/file; ln -s old link
		stat -c '%u %g' . old new/dir/file`)...)
	o.wantStatus(t, 0)
	if want := "/project\nbefore\n1000 1000\n1000 1000\n1000 1000\n"; o.stdout != want {
		t.Errorf("got %q, want %q", o.stdout, want)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "after\n" {
		t.Errorf("on the host the file holds %q, %v", text, err)
	}
	for _, name := range []string{"old", "new", "new/dir", "new/dir/file", "link"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != agent.uid || int(st.Gid) != agent.gid {
			t.Errorf("%s belongs to %d:%d, not to the user", name, st.Uid, st.Gid)
		}
	}
}

// Point 7: nothing else of the host can be seen. Every mount is one of a known
// list, and a file of the user's next to the project is nowhere.
func TestPoint7NothingElseOfTheHost(t *testing.T) {
	top := project(t)
	secret := write(t, top, "secret-of-the-host", "x\n")
	dir := filepath.Join(top, "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	o := call{dir: dir}.aisb(t, allowed, sh(`find / -name 'secret-of-the-host*' -o -name .ssh -o -name 'podman*.sock' 2>/dev/null | grep -v ^/proc
		cat link 2>/dev/null; ls /home; ls /home/agent /project; cat ../secret-of-the-host 2>/dev/null
		echo ---; cut -d' ' -f5 /proc/self/mountinfo; echo ---; cat /etc/hosts /etc/resolv.conf; echo ---; ps -e -o comm= 2>/dev/null | sort -u`)...)
	o.wantStatus(t, 0)
	parts := strings.Split(o.stdout, "---\n")
	if want := "agent\n/home/agent:\n\n/project:\nlink\n"; parts[0] != want {
		t.Errorf("seen: %q, want %q", parts[0], want)
	}
	known := []string{"/", "/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys/fs/cgroup", "/sys/firmware", "/sys/dev",
		"/tmp", "/var/tmp", "/run", "/run/.containerenv", "/run/lock", "/home/agent", "/project",
		"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/usr/libexec/aisb-entry", "/usr/local/bin/aisb", "/etc/aisb/AGENTS.md"}
	for target := range strings.FieldsSeq(parts[1]) {
		if !slices.Contains(known, target) && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/dev/") {
			t.Errorf("%s is mounted", target)
		}
	}
	wantNot(t, "hosts and resolv.conf", parts[2], "nameserver", hostAddr, agent.name)
	for comm := range strings.FieldsSeq(parts[3]) {
		if !slices.Contains([]string{"aisb-entry", "sh", "ps", "sort"}, comm) {
			t.Errorf("a process %q can be seen", comm)
		}
	}
}

// TestReadOnlyPlaces: the image can't be changed, the places for data can.
func TestReadOnlyPlaces(t *testing.T) {
	dir := project(t)
	o := call{dir: dir}.aisb(t, append([]string{"--project-ro"}, allowed...), sh(`for f in /project/x /etc/x /usr/local/bin/x /x /usr/local/bin/aisb /usr/libexec/aisb-entry /etc/hosts /etc/resolv.conf /run/x /var/x; do
		(echo x >>$f) 2>/dev/null && echo "wrote $f"; done
		for f in /tmp/x /var/tmp/x /home/agent/x /dev/shm/x; do echo x >$f || exit 1; done`)...)
	o.wantStatus(t, 0)
	if o.stdout != "" {
		t.Errorf("%s", o.stdout)
	}
}

// Point 7: git works on the user's repository inside, and the host sees the
// commit.
func TestPoint7GitCommit(t *testing.T) {
	dir := project(t)
	git := func(args ...string) string { return asUser(t, "git", append([]string{"-C", dir}, args...)...) }
	git("init", "-q")
	write(t, dir, "file", "1\n")
	flags := append([]string{"-e", "GIT_AUTHOR_NAME=A", "-e", "GIT_AUTHOR_EMAIL=a@example.com",
		"-e", "GIT_COMMITTER_NAME=A", "-e", "GIT_COMMITTER_EMAIL=a@example.com"}, allowed...)
	o := call{dir: dir}.aisb(t, flags, sh(`set -e; git add file; git commit -qm inside; git log --format=%s; git status --short`)...)
	o.wantStatus(t, 0)
	if o.stdout != "inside\n" {
		t.Errorf("got %q", o.stdout)
	}
	if got := git("log", "--format=%an <%ae> %s"); got != "A <a@example.com> inside\n" {
		t.Errorf("the host sees %q", got)
	}
	if got := git("status", "--short"); got != "" {
		t.Errorf("the host's status is %q", got)
	}
}

// In a subdirectory of a repository git works too: the rest of the work tree
// stands in a directory of the run, which is gone afterwards.
func TestGitInSubdirectory(t *testing.T) {
	top := project(t)
	git := func(args ...string) string { return asUser(t, "git", append([]string{"-C", top}, args...)...) }
	git("init", "-q")
	write(t, top, "outside", "1\n")
	asUser(t, "mkdir", top+"/sub")
	write(t, top+"/sub", "file", "1\n")
	git("add", ".")
	git("-c", "user.name=U", "-c", "user.email=u@example.com", "commit", "-qm", "first")
	flags := append([]string{"-e", "GIT_AUTHOR_NAME=A", "-e", "GIT_AUTHOR_EMAIL=a@example.com",
		"-e", "GIT_COMMITTER_NAME=A", "-e", "GIT_COMMITTER_EMAIL=a@example.com"}, allowed...)
	o := call{dir: top + "/sub"}.aisb(t, flags, sh(`set -e; git status --short; echo 2 >file; git commit -qam inside; git status --short
		echo spoiled >../outside; mkdir ../closed; touch ../closed/x; chmod 0 ../closed`)...)
	o.wantStatus(t, 0)
	if o.stdout != "" {
		t.Errorf("git inside sees %q", o.stdout)
	}
	wantNot(t, "what aisb says", o.stderr, "can read but not commit", "warning: remove")
	if got := git("show", "--stat", "--format=%s", "HEAD"); !strings.HasPrefix(got, "inside\n") || !strings.Contains(got, "sub/file") || strings.Contains(got, "outside") {
		t.Errorf("the host sees %q", got)
	}
	if got := git("status", "--short"); got != "" {
		t.Errorf("the host's status is %q", got)
	}
	if left, err := os.ReadDir(filepath.Join(xdg, "state/aisb/scratch")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestRefusedDirectories: a directory that is more than a project.
func TestRefusedDirectories(t *testing.T) {
	for _, dir := range []string{agent.home, "/", agent.runtime, filepath.Join(agent.home, ".config")} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		o := call{dir: dir}.aisb(t, allowed, "true")
		o.wantStatus(t, 2)
		wantIn(t, "error", o.stderr, "aisb: error: ", "aisb: hint: ")
	}
}

// TestUnsafeDirOfStorage: no flag makes a run of a directory in which podman
// mounts the sandbox itself, and that is told before anything starts.
func TestUnsafeDirOfStorage(t *testing.T) {
	gone := wantNothingLeft(t)
	o := call{dir: agent.home}.aisb(t, append([]string{"--allow-unsafe-dir"}, allowed...), "true")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "aisb: error: ", "is not mounted: it is your home directory", "no flag helps here")
	gone()
}

// TestAnyByteArrives: arguments and names need not be UTF-8.
func TestAnyByteArrives(t *testing.T) {
	dir := project(t)
	sub := filepath.Join(dir, "caf\xe9")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(sub, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	odd := "a\xe9\n\xff\"'"
	o := call{dir: dir}.aisb(t, []string{"--net", "none", "-w", "caf\xe9"}, "printf", "%s", odd)
	o.wantStatus(t, 0)
	if o.stdout != odd {
		t.Errorf("got %q, want %q", o.stdout, odd)
	}
	o = call{dir: sub}.aisb(t, []string{"--net", "none"}, "true")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "is not UTF-8", "aisb: hint: ")
}
