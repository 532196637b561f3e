package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNameAgain: a run can have the name of one that has ended, whose log stays; not
// that of one that goes on.
func TestNameAgain(t *testing.T) {
	p := Paths{Runtime: t.TempDir() + "/aisb", State: t.TempDir()}
	enter := func() (RunDirs, error) { return p.enter(t.Context(), user("aisb-web", "", "", "a.test", "")) }
	first, err := enter()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first.LogPath(), []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = enter()
	if f, ok := errors.AsType[*Failure](err); !ok || f.Status != 2 || f.Error() != `a sandbox with the name "aisb-web" is running` {
		t.Errorf("two of one name: %v", err)
	}
	// One of another login isn't seen in the claims, but its directory is held.
	other := Paths{Runtime: t.TempDir() + "/aisb", State: p.State}
	if _, err := other.enter(t.Context(), user("aisb-web", "", "", "a.test", "")); err == nil {
		t.Error("two of one name, of two logins")
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		next, err := enter()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(next.LogPath()); err == nil {
			t.Error("it has the log of the first")
		}
		if err := next.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := filepath.Glob(filepath.Join(p.State, "runs/aisb-web.*/log.jsonl"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%q, %v", logs, err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	if dirs, _ := filepath.Glob(filepath.Join(p.State, "runs/*")); len(dirs) != 3 {
		t.Errorf("%q", dirs)
	}
}

// TestNameOfAKilledRun: what that has left where sandboxes listen doesn't hinder one
// of the same name.
func TestNameOfAKilledRun(t *testing.T) {
	p := Paths{Runtime: t.TempDir() + "/aisb", State: t.TempDir()}
	left := filepath.Join(p.Runtime, "aisb-web")
	if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(left+"/control", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	dirs, err := p.enter(t.Context(), user("aisb-web", "", "", "a.test", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer dirs.Remove()
	if _, err := os.Stat(left); err == nil {
		t.Error("it is still there")
	}
}

func TestOldRuns(t *testing.T) {
	p := Paths{Runtime: t.TempDir() + "/aisb", State: t.TempDir()}
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": 40 * 24 * time.Hour, "older": 50 * 24 * time.Hour, "new": time.Hour, "runs": 60 * 24 * time.Hour, "wrote": 40 * 24 * time.Hour} {
		d, err := p.MakeRunDirs(name)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(os.WriteFile(d.LogPath(), []byte("12345"), 0o600), os.Chtimes(d.LogPath(), now, now.Add(-age)), os.Chtimes(d.State, now, now.Add(-age)))
		if name == "wrote" {
			err = errors.Join(err, os.Chtimes(d.LogPath(), now, now))
		}
		if err != nil {
			t.Fatal(err)
		}
		if name != "runs" {
			d.held.Close()
		}
	}
	old, err := OldRuns(p.State, now.Add(-30*24*time.Hour))
	var names []string
	for _, r := range old {
		names = append(names, r.Name)
		if r.Size != 5 {
			t.Errorf("%+v", r)
		}
		if err := r.Remove(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"older", "old"}; !slices.Equal(names, want) || err != nil {
		t.Errorf("got %q, want %q, %v", names, want, err)
	}
	left, _ := filepath.Glob(filepath.Join(p.State, "runs/*"))
	if len(left) != 3 || strings.Contains(strings.Join(left, " "), "old") {
		t.Errorf("%q", left)
	}
	if old, err := OldRuns(t.TempDir(), now); err != nil || old != nil {
		t.Errorf("%v, %v", old, err)
	}
}
