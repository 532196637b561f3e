package doctor

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Version is a part that aisb works with, and what it says of itself.
type Version struct {
	Name string `json:"name"`
	Text string `json:"version"` // "" when Err says why there is none
	Err  string `json:"error,omitempty"`
}

// Versions asks the kernel and the programs that a run starts, each for a few
// seconds at most. Programs are looked for in path alone, as in PATH.
func Versions(ctx context.Context, path string) []Version {
	list := []Version{{Name: "kernel", Text: kernelRelease()}}
	for _, name := range []string{"podman", "crun", "pasta"} {
		list = append(list, askVersion(ctx, name, path))
	}
	return list
}

func askVersion(ctx context.Context, name, path string) Version {
	v := Version{Name: name}
	file := lookIn(name, path)
	if file == "" {
		v.Err = "not found"
		return v
	}
	// pasta of 2025 writes its version to a terminal alone.
	o := run(ctx, quick, command{path: file, args: []string{"--version"}, env: os.Environ(), dir: "/", terminal: name == "pasta"})
	if r, bad := trouble(o, name+" --version"); bad {
		v.Err = r.detail
		return v
	}
	words := strings.Fields(firstLine(o.Text)) // "podman version 5.4.2", "crun version 1.21", "pasta 0.0~git..."
	if len(words) == 0 {
		v.Err = "it names none"
		return v
	}
	v.Text = words[len(words)-1]
	return v
}

// lookIn finds a program in the directories of path.
func lookIn(name, path string) string {
	for dir := range strings.SplitSeq(path, ":") {
		if file, err := exec.LookPath(dir + "/" + name); err == nil && strings.HasPrefix(dir, "/") {
			return file
		}
	}
	return ""
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
