package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// The list of what was planted holds the names as they are, and drives no terminal.
func TestPlantedList(t *testing.T) {
	name := "\u009b2J\x7f\u202eż\U0001f600\x1b]0;x\a/.envrc"
	p := Planted{List: t.TempDir() + "/planted.json", Outcome: snapshot.Outcome{
		Changes: []protect.Change{{Path: name, New: true, Rule: protect.UserRule}},
	}}
	if err := p.keep(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.List)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		t.Errorf("%q", text)
	}
	var list []plantedRecord
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 || list[0].Path != name {
		t.Errorf("%v, %+v", err, list)
	}
}

// TestQuarantineOfANameAgain: what runs of one name leave one after the other is all
// moved aside.
func TestQuarantineOfANameAgain(t *testing.T) {
	set, err := protect.Load()
	if err != nil {
		t.Fatal(err)
	}
	project, state := t.TempDir(), t.TempDir()
	root, err := os.OpenFile(project, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	trees := []snapshot.Tree{{File: root, Path: project, From: protect.Top}}
	for _, want := range []string{"quarantine/aisb-x", "quarantine/aisb-x.2", "quarantine/aisb-x.3"} {
		s := &Session{
			host: Host{Paths: Paths{State: state}}, dirs: RunDirs{State: t.TempDir()},
			spec: Spec{Name: "aisb-x", Quarantine: true, Watch: snapshot.NewWatch(set, trees, snapshot.Take(trees, set, snapshot.AtStart, nil))},
		}
		err := os.WriteFile(filepath.Join(project, ".envrc"), []byte(want), 0o600)
		p, listed := s.planted()
		if err := errors.Join(err, listed); err != nil || len(p.Moved) != 1 || p.Moved[0].Err != nil {
			t.Fatalf("%v, %+v", err, p)
		}
		if text, err := os.ReadFile(filepath.Join(state, want, ".envrc")); string(text) != want {
			t.Errorf("%s: %q, %v", want, text, err)
		}
		if info, err := os.Stat(p.List); err != nil || info.Mode().Perm() != 0o600 || time.Since(info.ModTime()) > time.Hour {
			t.Errorf("%v, %v", info, err)
		}
	}
}
