//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies at a path when podman mounts it must be what aisb looked at: between
// the two somebody puts another thing there (T20).
func TestSwappedBeforePodmanMounts(t *testing.T) {
	for _, tt := range []struct {
		name, swap string // $B has p/ (the project), file, other/ and secret/
		status     int
		part       string
	}{
		{"another directory", "mv p away; mv other p", 78, `mount "/project" shows another file or directory`},
		{"an exchange", "mv --exchange p other 2>/dev/null || { mv p t; mv other p; mv t other; }", 78, `mount "/project" shows another`},
		{"a link to secrets", "mv p away; ln -s secret p", 78, `mount "/project" shows another`},
		{"a link to another place of it", "mv p away; ln -s / p", 78, ""},
		{"a mounted file", "mv file away; cp secret/key file", 78, `mount "/mnt/f" shows another`},
		{"a mounted file by a link", "rm file; ln -s secret/key file", 78, `mount "/mnt/f" shows another`},
		{"the directory above", `cd ..; mv "$B" "$B.away"; cp -a "$B.away" "$B"`, 78, "shows another"},
		{"nothing", "mv p away", 125, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			base := project(t)
			t.Cleanup(func() { os.RemoveAll(base + ".away") })
			for _, sub := range []string{"p", "other", "secret"} {
				if err := os.Mkdir(filepath.Join(base, sub), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(filepath.Join(base, sub), agent.uid, agent.gid); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(base, "secret"), "key", "secret")
			file := write(t, base, "file", "x")
			c := call{dir: filepath.Join(base, "p"), env: wrapped(t, `[ "$a" = run ] && ( set -e; B='`+base+`'; cd "$B"; `+tt.swap+` ) >&2`)}
			o := c.aisb(t, append([]string{"-v", file + ":/mnt/f:ro"}, allowed...), sh("touch /project/ran; cat /mnt/f /project/key")...)
			wantRefusedStart(t, c.dir, o, tt.status, tt.part)
			wantNot(t, "output", o.stdout, "secret")
			left, err := filepath.Glob(base + "*/*/ran")
			if err != nil || len(left) > 0 {
				t.Errorf("the command ran: %q, %v", left, err)
			}
			gone()
		})
	}
}

// The same without knowing when: the project and another directory change places
// all the time. Whatever comes of a start, no command ever sees the other one.
func TestSwappedAllTheTime(t *testing.T) {
	const starts, least = 12, 500
	gone := wantNothingLeft(t)
	dir, decoy := project(t), project(t)
	write(t, dir, "right", "")
	write(t, decoy, "decoy", "")
	stop := make(chan struct{})
	var exchanges int
	var racer sync.WaitGroup
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, decoy, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			exchanges++
		}
	})
	seen := map[int]int{}
	script := `until cd "$1" && [ -e right ]; do :; done; shift; exec "$@"`
	args := append([]string{"-c", script, "sh", dir, binary}, runArgs(allowed, "ls", "/project")...)
	for range starts {
		o := call{dir: agent.home, bin: "/bin/sh"}.do(t, args...)
		seen[o.status]++
		switch o.status {
		case 0:
			if o.stdout != "right\n" {
				t.Errorf("the command saw %q\n%s", o.stdout, o.stderr)
			}
		case 2:
			wantIn(t, "error", o.stderr, "not the directory that you are in")
		case 78:
			wantIn(t, "error", o.stderr, `mount "/project" shows another file or directory`)
		default:
			t.Errorf("status %d\n%s%s", o.status, o.stdout, o.stderr)
		}
	}
	close(stop)
	racer.Wait()
	t.Logf("%d exchanges, starts by status: %v", exchanges, seen)
	if exchanges < least || seen[2]+seen[78] == 0 {
		t.Errorf("%d exchanges and %v show nothing", exchanges, seen)
	}
	gone()
}

// What the host replaces while a sandbox runs: a mount that is lost or moved ends
// it; what only its source's name has lost changes nothing inside.
func TestReplacedDuringTheRun(t *testing.T) {
	const point = "/project/sub/point"
	for _, tt := range []struct {
		name, change string // in the project, as the user; $O is the mount's source
		dir          bool   // it is a directory
		lost         bool
	}{
		{name: "a file renamed over the mount point", change: "echo new >x; mv x sub/point", lost: true},
		{name: "the mount point unlinked", change: "rm sub/point", lost: true},
		{name: "the directory above renamed", change: "mv sub sub2", lost: true},
		{name: "the directory above replaced", change: "mv sub sub2; mkdir sub; echo new >sub/point", lost: true},
		{name: "a directory removed", change: "rmdir sub/point", dir: true, lost: true},
		{name: "a directory renamed", change: "mv sub/point sub/p2; mkdir sub/point", dir: true, lost: true},
		{name: "unmounted", change: "umount", lost: true},
		{name: "the source renamed over", change: `echo new >"$O.new"; mv "$O.new" "$O"`},
		{name: "the source unlinked", change: `rm "$O"`},
		{name: "the project renamed and replaced", change: `cd ..; mv "$P" "$P.away"; mkdir "$P"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			dir := project(t)
			t.Cleanup(func() { os.RemoveAll(dir + ".away") })
			source := write(t, project(t), "source", "old\n")
			in := call{dir: dir, bin: "/bin/sh", env: []string{"P=" + dir, "O=" + source}}
			in.do(t, "-ec", map[bool]string{true: "mkdir -p sub/point", false: "mkdir sub; : >sub/point"}[tt.dir]).wantStatus(t, 0)
			if tt.dir {
				source = filepath.Dir(source)
			}
			l := call{dir: dir}.start(t, append([]string{"-v", source + ":" + point + ":ro"}, allowed...),
				sh("echo ready; read x; cat "+point+" "+point+"/source 2>/dev/null; echo made >/project/made; exit 5")...)
			l.waitOut("ready\n")
			if tt.change == "umount" {
				if err := unmount(child(t, "aisb-entry"), point); err != nil {
					t.Fatal(err)
				}
			} else {
				in.do(t, "-ec", tt.change).wantStatus(t, 0)
			}
			if tt.lost {
				o := l.wait(dogLimit)
				o.wantStatus(t, 78)
				wantIn(t, "error", o.stderr, "aisb: error: the sandbox was stopped: ", "mount on", "aisb: hint: ")
				gone()
				return
			}
			lookTwice()
			l.say("")
			o := l.wait(dogLimit)
			o.wantStatus(t, 5)
			if got := strings.TrimPrefix(o.stdout, "ready\n"); got != "old\n" {
				t.Errorf("inside it is %q, want what was there at the start", got)
			}
			if strings.Contains(tt.change, "away") {
				dir += ".away"
			}
			if _, err := os.Lstat(filepath.Join(dir, "made")); err != nil {
				t.Errorf("the command wrote elsewhere: %v", err)
			}
			gone()
		})
	}
}
