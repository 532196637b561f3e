//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// examples are the pieces of shell of a page, to be run as they stand.
func examples(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("AISB_E2E_DOCS"), page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "```sh\n")[1:] {
		code, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, code)
	}
	return blocks
}

// reader is a user who does what a page says: aisb runs in the tests' image and
// internet, whose names stand for the page's.
type reader struct {
	c       call
	replace *strings.Replacer
}

func newReader(t *testing.T, c call, image string, pairs ...string) reader {
	t.Helper()
	bin := project(t)
	write(t, bin, "aisb", fmt.Sprintf("#!/bin/sh\n[ \"$1\" = run ] || exec %[1]s \"$@\"\nshift\nexec %[1]s run --image %s --ephemeral-home --resolver %s \"$@\"\n", binary, image, routerAddr))
	if err := os.Chmod(filepath.Join(bin, "aisb"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.env, c.bin = append(c.env, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin"), "/bin/sh"
	return reader{c, strings.NewReplacer(pairs...)}
}

func (r reader) does(t *testing.T, code string) outcome {
	t.Helper()
	code = r.replace.Replace(code)
	o := r.c.do(t, "-ec", code)
	t.Logf("%s%s", code, o.stderr)
	o.wantStatus(t, 0)
	return o
}

// TestExamplesOfGit: the examples of docs/git.md do what it says.
func TestExamplesOfGit(t *testing.T) {
	blocks := examples(t, "git.md")
	if len(blocks) != 4 {
		t.Fatalf("%d examples", len(blocks))
	}
	_ = sshKeys(t) // makes the server's own
	dir := filepath.Dir(internet.ca)
	c := gitUser(t)
	ca, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "GIT_SSL_CAINFO=/project/ca.pem")
	keys := project(t)
	known := filepath.Join(keys, "known")
	r := newReader(t, c, os.Getenv("AISB_E2E_HARNESS_IMAGE"),
		"ssh-keygen -F git.example.com", "ssh-keygen -F git.test -f "+known,
		"git.example.com", "git.test", "~/agent-", keys+"/agent-", "GIT_TOKEN=...", "GIT_TOKEN="+modelKey,
		"--git-token", "-e GIT_SSL_CAINFO --git-token")
	r.does(t, "git init -q -b main .")
	for i, want := range []string{author + "work of an agent", "agent <agent@example.com> A User <user@example.com> by an agent"} {
		r.does(t, blocks[i])
		if got := r.does(t, `git log -1 --format='%an <%ae> %cn <%ce> %s'`).stdout; got != want+"\n" {
			t.Errorf("example %d: the commit is %q", i+1, got)
		}
	}

	// The first line makes the key that the forge is given.
	begin, rest, _ := strings.Cut(blocks[2], "\n")
	r.does(t, begin)
	script := `cp "$1/agent-key.pub" "$2/ssh-home/.ssh/authorized_keys" && git init -q --bare -b main "$2/ssh-home/repository.git" &&
printf 'git.test %s\n' "$("$3/dropbearkey" -y -f "$2/host-key" | grep ^ssh-)" >"$4"`
	if out, err := exec.Command("/bin/sh", "-c", script, "sh", keys, dir, os.Getenv("AISB_E2E_SSHD"), known).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.does(t, rest)
	r.does(t, "test -d repository/.git && rm -rf repository")

	bareRepository(t, "repository.git")
	write(t, r.c.dir, "ca.pem", string(ca))
	r.does(t, blocks[3])
	r.does(t, "test -d repository/.git")
}

// TestExamplesOfPorts: those of docs/ports.md.
func TestExamplesOfPorts(t *testing.T) {
	blocks := examples(t, "ports.md")
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	c := call{dir: project(t)}
	write(t, c.dir, "server.py", strings.Replace(answering, "sys.argv[1]", `"127.0.0.1"`, -1))
	r := newReader(t, c, testImage)
	l := r.c.startAny(t, "-ec", "exec "+strings.TrimSpace(blocks[0]))
	l.waitOut("listening\n")
	if got := readAs(t, agent.uid, "8080"); got != "served" {
		t.Errorf("the server says %q", got)
	}
	l.signal(syscall.SIGTERM) // of one directory, two sandboxes with other rules aren't
	l.wait(runTimeout)

	ln, err := net.Listen("tcp", "127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: fakes.Site()}
	go server.Serve(ln)
	defer server.Close()
	for _, code := range blocks[1:] {
		wantIn(t, "answer", r.does(t, code).stdout, "origin GET ")
	}
}
