package early

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/entry"
)

// TestEarly holds what the package is for: as the entrypoint a binary that links more
// sets that up never. The first process of no container, it says so and ends.
func TestEarly(t *testing.T) {
	aisb := filepath.Join(t.TempDir(), "aisb")
	build := exec.Command("go", "build", "-o", aisb, "github.com/aisb-dev/aisb/cmd/aisb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	traced := func(argv0 string) string {
		cmd := exec.Command(aisb)
		cmd.Args, cmd.Env = []string{argv0, "version"}, []string{"GODEBUG=inittrace=1"}
		out, _ := cmd.CombinedOutput() // as the entrypoint it fails
		return string(out)
	}
	late := []string{"net/http", "github.com/elazarl/goproxy", "github.com/spf13/cobra", "github.com/miekg/dns"}
	all, early := traced("aisb"), traced(entry.Name)
	if !strings.Contains(early, "not the first process of a container") {
		t.Fatalf("not the entrypoint: %s", early)
	}
	for _, name := range late {
		if !strings.Contains(all, "init "+name+" ") {
			t.Errorf("%s is not set up by aisb either", name)
		}
		if strings.Contains(early, "init "+name+" ") {
			t.Errorf("%s is set up before the entrypoint", name)
		}
	}
}
