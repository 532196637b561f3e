package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// put makes a file, or with a / at the end a directory, of some age.
func put(t *testing.T, path string, at time.Time) string {
	t.Helper()
	dir := filepath.Dir(path)
	if path[len(path)-1] == '/' {
		dir = path
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if dir != path {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrune(t *testing.T) {
	root, now := t.TempDir(), time.Now()
	p := Paths{Runtime: root + "/runtime", State: root + "/state", Cache: root + "/cache"}
	const day = 24 * time.Hour
	kept, dropped := []string{}, []string{}
	for i := range keptRuns + 5 {
		dir := fmt.Sprintf("%s/runs/aisb-x-%03d/", p.State, i)
		put(t, dir+"log.jsonl", now)
		put(t, dir, now.Add(-time.Duration(i)*time.Minute))
		if i < keptRuns || i == keptRuns+3 {
			kept = append(kept, dir+"log.jsonl")
		} else {
			dropped = append(dropped, dir)
		}
	}
	// An old run that is still going on.
	living, err := hold(fmt.Sprintf("%s/runs/aisb-x-%03d", p.State, keptRuns+3))
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	kept = append(kept,
		put(t, p.Cache+"/entry-now", now.Add(-30*day)), put(t, p.Cache+"/entry-yesterday", now.Add(-day)),
		put(t, p.Cache+"/entry.json", now.Add(-30*day)), put(t, p.Cache+"/.entry-1", now.Add(-time.Minute)),
		put(t, p.Runtime+"/podman-0.new-2/", now), put(t, p.Runtime+"/podman-0/", now.Add(-30*day)),
		put(t, p.State+"/scratch/aisb-y/", now), put(t, p.State+"/images/record", now.Add(-30*day)))
	deep := put(t, p.State+"/scratch/aisb-z/worktree/sub/file", now)
	if err := os.Chmod(filepath.Dir(deep), 0); err != nil {
		t.Fatal(err)
	}
	dropped = append(dropped,
		put(t, p.Cache+"/entry-old", now.Add(-8*day)), put(t, p.Cache+"/.entry-2", now.Add(-2*day)),
		put(t, p.Runtime+"/podman-0.new-1/", now.Add(-2*day)), put(t, p.State+"/scratch/aisb-z/", now.Add(-2*time.Hour)))
	if err := p.prune(now, p.Cache+"/entry-now"); err != nil {
		t.Fatal(err)
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("not kept: %v", err)
		}
	}
	for _, path := range dropped {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
	// Once a day.
	again := put(t, p.Cache+"/entry-old", now.Add(-8*day))
	if err := p.prune(now.Add(time.Hour), "entry-now"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again); err != nil {
		t.Errorf("it was done again within the day: %v", err)
	}
	if err := p.prune(now.Add(25*time.Hour), "entry-now"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was not done the next day: %v", err)
	}
}

func TestScratch(t *testing.T) {
	p := Paths{State: t.TempDir()}
	none, err := p.HoldScratch("aisb-x-000000")
	if none != nil || err != nil || none.Remove() != nil {
		t.Fatalf("%v, %v", none, err)
	}
	put(t, p.ScratchPath("aisb-x-000000")+"/worktree/file", time.Now().Add(-2*time.Hour))
	put(t, p.ScratchPath("aisb-x-000000")+"/", time.Now().Add(-2*time.Hour))
	s, err := p.HoldScratch("aisb-x-000000")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.prune(time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Path + "/worktree/file"); err != nil {
		t.Errorf("a held one is gone: %v", err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there (%v)", err)
	}
}
