package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// testPaths are directories of aisb's in a new one.
func testPaths(t *testing.T) Paths {
	t.Helper()
	dir := t.TempDir()
	return Paths{Runtime: filepath.Join(dir, "runtime/aisb"), State: filepath.Join(dir, "state/aisb"), Cache: filepath.Join(dir, "cache/aisb")}
}

// TestPlacesAreAll: what a run, its end and a clean-up make lies in a place that is listed,
// and removing all places leaves nothing.
func TestPlacesAreAll(t *testing.T) {
	p := testPaths(t)
	dirs, err := p.enter(t.Context(), Spec{Name: "aisb-x"})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if _, err := EntryBinary(p.Cache, self); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.ScratchPath("aisb-x"), filepath.Join(p.State, "quarantine/aisb-x/deep")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(p.State, "quarantine/aisb-x/deep"), 0); err != nil { // an agent's
		t.Fatal(err)
	}
	if err := p.prune(time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	if strange, err := p.Strange(); err != nil || len(strange) > 0 {
		t.Errorf("not known: %q, %v", strange, err)
	}
	if err := dirs.Remove(); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(p.State, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeAll := func() {
		t.Helper()
		for _, place := range p.Places() {
			if err := place.Remove(p); err != nil {
				t.Errorf("%s: %v", place.Path, err)
			}
		}
	}
	removeAll()
	if strange, err := p.Strange(); err != nil || !slices.Equal(strange, []string{mine}) {
		t.Errorf("not known: %q, %v", strange, err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	removeAll()
	for _, dir := range []string{p.Runtime, p.State, p.Cache} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// TestQuiet: while it is quiet nothing begins, and what runs is named, also when only the
// kept half of it is seen.
func TestQuiet(t *testing.T) {
	p := testPaths(t)
	release, running, err := p.Quiet(t.Context())
	if err != nil || len(running) > 0 {
		t.Fatalf("%q, %v", running, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.enter(ctx, Spec{Name: "aisb-late"}); err == nil {
		t.Error("a run has begun")
	}
	release()
	one, err := p.enter(t.Context(), Spec{Name: "aisb-one"})
	if err != nil {
		t.Fatal(err)
	}
	other := p // of another login
	other.Runtime = filepath.Join(filepath.Dir(filepath.Dir(p.Runtime)), "elsewhere/aisb")
	two, err := other.enter(t.Context(), Spec{Name: "aisb-two"})
	if err != nil {
		t.Fatal(err)
	}
	release, running, err = p.Quiet(t.Context())
	if err != nil || !slices.Equal(running, []string{"aisb-one", "aisb-two"}) {
		t.Errorf("%q, %v", running, err)
	}
	release()
	for _, d := range []RunDirs{one, two} {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
	release, running, err = p.Quiet(t.Context())
	if err != nil || len(running) > 0 {
		t.Errorf("after their end: %q, %v", running, err)
	}
	release()
}

// TestRemoveRuntime: the directory of run-time files goes when nobody uses it, and who
// waited meanwhile has one that others see.
func TestRemoveRuntime(t *testing.T) {
	p := testPaths(t)
	one, err := p.enter(t.Context(), Spec{Name: "aisb-one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveRuntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running, err := p.Running(t.Context()); err != nil || !slices.Equal(running, []string{"aisb-one"}) {
		t.Errorf("what a run uses was removed: %q, %v", running, err)
	}
	if list, err := living(filepath.Join(p.Runtime, claimsDir)); err != nil || len(list) != 1 {
		t.Errorf("the claim of a run was removed: %v, %v", list, err)
	}
	if err := errors.Join(one.Remove(), p.RemoveRuntime(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.Runtime); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	release, _, err := p.Quiet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan RunDirs)
	go func() {
		defer close(began)
		if two, err := p.enter(t.Context(), Spec{Name: "aisb-two"}); err != nil {
			t.Error(err)
		} else {
			began <- two
		}
	}()
	time.Sleep(20 * time.Millisecond) // it may wait by now; both orders must do
	places := p.Places()
	if err := places[len(places)-1].Remove(p); err != nil {
		t.Fatal(err)
	}
	release()
	if two, ok := <-began; ok {
		if running, err := p.Running(t.Context()); err != nil || !slices.Equal(running, []string{"aisb-two"}) {
			t.Errorf("%q, %v", running, err)
		}
		if list, err := living(filepath.Join(p.Runtime, claimsDir)); err != nil || len(list) != 1 {
			t.Errorf("nobody sees the claim of who has waited: %v, %v", list, err)
		}
		if err := two.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(p.Runtime)); err != nil || len(left) != 1 {
		t.Errorf("beside it: %v, %v", left, err)
	}
}

// TestPlacesByLink: where the user has put something elsewhere, what lies there isn't lost
// from sight by removing the link.
func TestPlacesByLink(t *testing.T) {
	p := testPaths(t)
	elsewhere := t.TempDir()
	for name, link := range map[string]string{"state": p.State, "cache": p.Cache} {
		put(t, filepath.Join(elsewhere, name)+"/", time.Now())
		put(t, filepath.Dir(link)+"/", time.Now())
		if err := os.Symlink(filepath.Join(elsewhere, name), link); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"state/runs/aisb-x/log.jsonl", "state/trust/0.json", "state/homes/aisb-home", "cache/entry-0"} {
		put(t, filepath.Join(elsewhere, name), time.Now())
	}
	for _, place := range p.Places() {
		if err := place.Remove(p); err != nil {
			t.Errorf("%s: %v", place.Path, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(elsewhere, "state")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, link := range []string{p.State, p.Cache} {
		if _, err := os.Readlink(link); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "cache/entry-0")); err != nil {
		t.Errorf("behind a link: %v", err)
	}
}
