//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitDir is where git.test has its repositories. It serves them by https to who
// has the password modelKey, and by ssh to who has a key.
func gitDir(dir string) string { return filepath.Join(dir, "repositories") }

// sshServer is git.test's ssh server, in the form of inetd's: a real one, for which
// the user git is root with another home.
func sshServer(dir string) string {
	sshd := os.Getenv("AISB_E2E_SSHD")
	if sshd == "" {
		return "exit 1"
	}
	return fmt.Sprintf(`exec unshare --mount /bin/sh -c 'mount --bind %[1]s/passwd /etc/passwd && exec %[2]s/dropbear -i -s -r %[1]s/host-key'`, dir, sshd)
}

// bareRepository makes an empty one at git.test and returns its directory.
func bareRepository(t *testing.T, name string) string {
	t.Helper()
	repo := filepath.Join(gitDir(filepath.Dir(internet.ca)), name)
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", repo}, {"-C", repo, "config", "http.receivepack", "true"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { os.RemoveAll(repo) })
	return repo
}

// committed is what is in a repository: author and committer of the last commit, and
// its subject.
func committed(t *testing.T, repo string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", repo, "log", "-1", "--format=%an <%ae> %cn <%ce> %s", "main").CombinedOutput()
	if err != nil {
		t.Fatalf("git log: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// gitUser is a call by a user who has told git who they are.
func gitUser(t *testing.T) call {
	t.Helper()
	config := write(t, project(t), "gitconfig", "[user]\n\tname = A User\n\temail = user@example.com\n")
	return call{dir: project(t), env: []string{"GIT_CONFIG_GLOBAL=" + config, "GIT_CONFIG_NOSYSTEM=1"}}
}

const author = "A User <user@example.com> A User <user@example.com> "

// With --git-identity commits are the user's, in exec sessions too; without it git
// says what it lacks, and aisb which flag gives it.
func TestGitIdentity(t *testing.T) {
	c := gitUser(t)
	commit := `git init -q -b main . && git commit -q --allow-empty -m first && git log -1 --format='%an <%ae> %cn <%ce> %s'`
	o := c.aisb(t, []string{"--net", "none", "--git-identity"}, sh(commit)...)
	o.wantStatus(t, 0)
	if o.stdout != author+"first\n" {
		t.Errorf("the commit is %q", o.stdout)
	}
	o = c.aisb(t, []string{"--net", "none"}, sh(`git commit --allow-empty -m second`)...)
	o.wantStatus(t, 128)
	wantIn(t, "stderr", o.stderr, "aisb: git commit has no author in here: --git-identity passes your name and mail address\n", "Please tell me who you are")
}

// git logs in at the host that the token is for, and the token is in no file.
func TestGitByHTTPS(t *testing.T) {
	repo := bareRepository(t, "by-https.git")
	c := gitUser(t)
	ca, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	write(t, c.dir, "ca.pem", string(ca))
	c.env = append(c.env, "GIT_TEST_TOKEN="+modelKey)
	flags := []string{"--allow", "git.test", "-e", "GIT_SSL_CAINFO=/project/ca.pem", "--git-identity"}
	script := fmt.Sprintf(`git clone -q https://git.test/%s w && cd w && git commit -q --allow-empty -m pushed && git push -q origin HEAD:main &&
! grep -r "$GIT_TEST_TOKEN" . ~ /tmp && ! git config --list | grep "$GIT_TEST_TOKEN" && echo clean`, filepath.Base(repo))
	o := c.aisb(t, append(flags, "--git-token", "git.test=GIT_TEST_TOKEN"), sh(script)...)
	o.wantStatus(t, 0)
	if got := committed(t, repo); got != author+"pushed" || o.stdout != "clean\n" {
		t.Errorf("pushed %q, wrote %q", got, o.stdout)
	}
	// Another host gets nothing, nor does the same one when the flag isn't there.
	o = c.aisb(t, append(flags, "-e", "GIT_TEST_TOKEN", "-e", "GIT_TERMINAL_PROMPT=0", "--git-token", "other.test=GIT_TEST_TOKEN"), sh(strings.ReplaceAll(script, " w ", " w2 "))...) // w is protected by now
	o.wantStatus(t, 128)
	wantIn(t, "stderr", o.stderr, "could not read Username for 'https://git.test'",
		"aisb: warning: --git-token other.test: no rule allows other.test:443; to allow it: --allow other.test\n")
}
