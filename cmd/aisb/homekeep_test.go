package main

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/home"
)

// TestShutHome: a home that can't be looked into is no riddle, run after run.
func TestShutHome(t *testing.T) {
	var said strings.Builder
	k := &keptHome{name: "h", dir: "/volumes of mine/h/_data", err: &fs.PathError{Op: "open", Path: "/volumes of mine/h/_data", Err: syscall.EACCES}}
	k.before = []home.Entry{{Path: ".bashrc"}}
	k.tell(&ui{Err: &said})
	for _, want := range []string{"aisb: warning: ", "in the home h is unknown", "aisb: hint: ", "podman unshare chmod a+x '/volumes of mine/h'"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %q", want, said.String())
		}
	}
}
