package mounts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The user's own configuration counts in each repository of the project.
func TestGlobalConfigurationInNested(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir+"/sub")
	os.RemoveAll(dir + "/sub/.git/hooks")
	write(t, dir+"/sub/.githooks/pre-commit", "x")
	write(t, h.Home+"/.gitconfig", "[core]\n\thooksPath = .githooks\n")
	wantProtected(t, plan(t, h, Options{Dir: dir}), "rw /project/sub", "rw /project/sub/.git", "ro /project/sub/.git/config", "ro /project/sub/.githooks")
}

// What lies so deep that its path is too long for a mount doesn't keep the next run from
// starting.
func TestTooDeepToMount(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	write(t, dir+"/.vscode/x", "x")
	deep := dir
	for len(deep) < 4096-220 {
		deep += "/" + strings.Repeat("d", 200)
	}
	deep += "/" + strings.Repeat("e", 4092-len(deep)-len("//.vscode"))
	if err := os.MkdirAll(deep+"/.vscode", 0o755); err != nil {
		t.Fatal(err)
	}
	p := plan(t, h, Options{Dir: dir})
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "podman can't mount such a name") }) {
		t.Errorf("warnings %q", p.Warnings)
	}
	if !slices.Contains(protected(p), "ro /project/.vscode") {
		t.Errorf("protected %q", protected(p))
	}
}

// A configuration that names very much doesn't hold up the next start.
func TestManyNames(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir+"/sub")
	var words strings.Builder
	for i := range 2 * mostNames {
		fmt.Fprintf(&words, " w%d", i)
	}
	write(t, dir+"/sub/.git/config", "[alias] x = !"+words.String()+"\n")
	wantRefusal(t, h, Options{Dir: dir}, "name more than", "--no-protect sub/.git/config")
	plan(t, h, Options{Dir: dir, NoProtect: []string{"sub/.git/config"}})
}
