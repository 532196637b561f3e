//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What aisb knows of its images goes along, and nothing else of the home or through it.
func TestLendRecords(t *testing.T) {
	home, scratch, outside := t.TempDir(), t.TempDir(), t.TempDir()
	if err := lendRecords(home, scratch); err != nil || exists(scratch+"/.local") {
		t.Fatalf("of a home without any: %v", err)
	}
	dir := filepath.Join(home, records)
	err := errors.Join(os.MkdirAll(dir, 0o700), os.Mkdir(dir+"/d.json", 0o700),
		os.WriteFile(dir+"/a.json", []byte("a record"), 0o600), os.WriteFile(dir+"/lock", nil, 0o600),
		os.WriteFile(outside+"/secret.json", nil, 0o600), os.Symlink(outside+"/secret.json", dir+"/link.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lendRecords(home, scratch); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(scratch, records, "a.json"))
	if list, _ := os.ReadDir(filepath.Join(scratch, records)); err != nil || string(text) != "a record" || len(list) != 1 {
		t.Errorf("got %q, %v, among %v", text, err, list)
	}

	// A directory that leads out of the home is an error, or a root would read it.
	if err := errors.Join(os.RemoveAll(dir), os.Symlink(outside, dir)); err != nil {
		t.Fatal(err)
	}
	if err := lendRecords(home, t.TempDir()); err == nil {
		t.Error("a link was followed out of the home")
	}
}
