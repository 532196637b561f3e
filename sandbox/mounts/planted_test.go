package mounts

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What an agent has put in the place of git's files is neither waited for nor shown.
func TestPlantedGitFiles(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	write(t, w+"/secret", "the secret\n")
	write(t, w+"/elsewhere/alternates", "the secret\n")
	mkdir(t, h.Home+"/scratch")
	info, index := w+"/repo/.git/objects/info", w+"/repo/.git/index"
	files := []string{info + "/alternates", index}
	for _, c := range []struct {
		name  string
		plant func(path string)
	}{
		{"fifo", func(path string) { fifo(t, path) }},
		{"link", func(path string) { symlink(t, w+"/secret", path) }},
		{"device", func(path string) { symlink(t, "/dev/zero", path) }},
		{"way", func(path string) {
			if path == index {
				return
			}
			if err := os.Remove(info); err != nil {
				t.Fatal(err)
			}
			symlink(t, w+"/elsewhere", info)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range files {
				_ = os.Remove(path) // it may be missing
				c.plant(path)
			}
			p := plan(t, h, Options{Dir: w + "/repo/a", Scratch: h.Home + "/scratch"})
			if text := strings.Join(append(p.Warnings, p.Notes...), "\n"); strings.Contains(text, "the secret") {
				t.Errorf("said %s", text)
			}
			if err := os.RemoveAll(h.Home + "/scratch/worktree"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
