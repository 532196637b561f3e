//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

// A make that is killed leaves neither its debootstrap nor what that mounts: a
// proc in the new root would be in the way of removing it. This debootstrap
// stops where the real one unpacks.
func TestDeathEndsTheMake(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "lab")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sleep := "sleep " + strconv.Itoa(300000+os.Getpid())
	script := "#!/bin/sh\nset -e\nfor root; do :; done\nmkdir $root/proc\nmount -t proc proc $root/proc\n" +
		"ls $root/proc >" + dir + "/seen\n" + sleep + " &\necho ready >" + dir + "/ready\nwait\n"
	if err := os.WriteFile(filepath.Join(dir, "debootstrap"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "aisb-lab")
	cmd := exec.Command(program, "make")
	cmd.Env = append(os.Environ(), "AISB_LAB_CACHE="+cache, "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "debootstrap runs", func() bool { return exists(dir + "/ready") })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	until(t, "debootstrap ends", func() bool { return !running(t, sleep) })
	if left := mounts(t); strings.Contains(left, dir) {
		t.Errorf("mounts are left:\n%s", left)
	}
	// The first process of its namespace goes last, and its mounts with it.
	until(t, "its root can be removed", func() bool { return os.RemoveAll(cache) == nil })
}

// until waits for what happens in another process's time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
