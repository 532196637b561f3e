//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// sshKeys makes a key pair that git.test knows, and returns the flags that give the
// private one to a run, with git.test's own public key.
func sshKeys(t *testing.T) []string {
	t.Helper()
	sshd := os.Getenv("AISB_E2E_SSHD")
	if sshd == "" {
		need.Missing(t, "lab", errors.New("no ssh server: tests/setup gets dropbear"))
	}
	dir := filepath.Dir(internet.ca) // where sshServer looks
	home := filepath.Join(dir, "ssh-home")
	keys := project(t)
	script := `set -e
mkdir -p -m 700 "$1" "$1/.ssh"
ssh-keygen -q -t ed25519 -N '' -f "$2/key"
cp "$2/key.pub" "$1/.ssh/authorized_keys"
chmod 600 "$1/.ssh/authorized_keys"
printf '%s:x:0:0::%s:/bin/sh\n' root "$1" git "$1" >"$3/passwd"
[ -e "$3/host-key" ] || "$4/dropbearkey" -t ed25519 -f "$3/host-key" >/dev/null 2>&1
printf 'git.test %s\n' "$("$4/dropbearkey" -y -f "$3/host-key" | grep ^ssh-)" >"$2/known_hosts"
chown -R "$5" "$2"`
	out, err := exec.Command("/bin/sh", "-c", script, "sh", home, keys, dir, sshd, fmt.Sprintf("%d:%d", agent.uid, agent.gid)).CombinedOutput()
	if err != nil {
		t.Fatalf("make keys: %v: %s", err, out)
	}
	return []string{"--mount", keys + "/key:/ssh/key:ro", "--mount", keys + "/known_hosts:/ssh/known_hosts:ro"}
}

// inImage runs a script in aisb's own image, which has ssh and its configuration.
func (c call) inImage(t *testing.T, flags []string, script string) outcome {
	t.Helper()
	image := os.Getenv("AISB_E2E_HARNESS_IMAGE")
	if image == "" {
		t.Fatal("AISB_E2E_HARNESS_IMAGE names no image; run 'make e2e'")
	}
	args := []string{"run", "--image", image, "--ephemeral-home", "--resolver", routerAddr, "--net-backend", backend}
	return c.do(t, append(append(append(args, flags...), "--"), sh(script)...)...)
}

// git clones and pushes by ssh with a rule for it and nothing else, and says why not
// without.
func TestGitBySSH(t *testing.T) {
	flags := append(sshKeys(t), "--git-identity")
	repo := bareRepository(t, "by-ssh.git")
	url := "ssh://git@git.test" + repo
	c := gitUser(t)
	work := func(dir string) string {
		return fmt.Sprintf(`git clone -q %s %[2]s && cd %[2]s && head -c 3000000 /dev/urandom >big && git add big && git commit -q -m "from %[2]s" && git push -q origin HEAD:main`, url, dir)
	}
	o := c.inImage(t, append([]string{"--allow", "git.test:22+tcp"}, flags...), work("one"))
	o.wantStatus(t, 0)
	if got := committed(t, repo); got != author+"from one" {
		t.Errorf("pushed %q\n%s", got, o.stderr)
	}
	wantIn(t, "receipt", o.stderr, "reached git.test:22")
	// In the form of scp, without the word ssh anywhere.
	o = c.inImage(t, append([]string{"--allow", "git.test:22+tcp"}, flags...), strings.ReplaceAll(work("two"), url, "git@git.test:"+repo))
	o.wantStatus(t, 0)
	if got := committed(t, repo); got != author+"from two" {
		t.Errorf("pushed %q", got)
	}

	mark := internet.mark()
	o = c.inImage(t, append([]string{"--allow", "allowed.test"}, flags...), work("three"))
	o.wantStatus(t, 128)
	wantIn(t, "stderr", o.stderr,
		"aisb: error: git.test:22 was refused: no rule allows this host (not-listed)\n",
		"aisb: hint: to allow it: aisb run --allow 'git.test:22+tcp'\n",
		"fatal: Could not read from remote repository.",
		"aisb: refused git.test:22 (not-listed); to allow it: --allow git.test:22+tcp\n")
	internet.wantSilence(t, mark)

	o = c.inImage(t, append([]string{"--allow", "git.test:22"}, flags...), work("four"))
	o.wantStatus(t, 128)
	wantIn(t, "stderr", o.stderr, `aisb: error: nothing came from git.test:22: its rule "git.test:22" lets TLS through alone`,
		"allow it with --allow git.test:22+tcp\n")
	if got := committed(t, repo); got != author+"from two" {
		t.Errorf("pushed without a rule: %q", got)
	}
}
