package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process of another sandbox is the user's too, may call itself pasta, and
// runs with whatever arguments it likes. It must neither be taken for the run's
// pasta nor keep that from being found.
func TestFindPastaAmongOthers(t *testing.T) {
	top := t.TempDir()
	netns := filepath.Join(top, "netns-1")
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, "proc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	pasta := func(pid, netns string) {
		put(pid+"/comm", "pasta.avx2\n")
		put(pid+"/cmdline", strings.ReplaceAll("pasta --config-net "+strings.Join(pastaOptions(NetFull), " ")+" --netns "+netns, " ", "\x00")+"\x00")
	}
	if err := os.WriteFile(netns, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	put("70/status", "Name:\taisb-entry\nPPid:\t60\n")
	put("70/ns/x", "")
	link(netns, "proc/70/ns/net")
	put("60/comm", "conmon\n")
	link("/", "proc/60/root")
	link(netns, "link")
	pasta("100", filepath.Join(top, "proc/70/ns/net"))
	pasta("101", filepath.Join(top, "link"))
	if pid, err := FindPasta(filepath.Join(top, "proc"), 70, os.Getuid(), NetFull); !errors.Is(err, ErrNoPasta) {
		t.Errorf("without a pasta: %d, %v", pid, err)
	}
	pasta("200", netns)
	if pid, err := FindPasta(filepath.Join(top, "proc"), 70, os.Getuid(), NetFull); pid != 200 {
		t.Errorf("got %d, %v; want 200", pid, err)
	}
}
