//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecretSweep: after all other tests (this file is the last one) none of their
// secrets is in any file, name, journal or process: plain, in hexadecimal or in base64. What the
// test itself plants in each kind of place is found, and nothing else is.
func TestSecretSweep(t *testing.T) {
	c := newCanary(t)
	planted := plant(t, c)
	begin := time.Now()
	s := sweepAll()
	took := time.Since(begin)
	swept = len(registered())
	for _, f := range s.found {
		if want, ok := planted[f.where]; !ok || f.of != t.Name() {
			t.Errorf("the secret of %s is in %s (%s)", f.of, f.where, f.form)
		} else if want != f.form {
			t.Errorf("%s holds what was planted %s, not %s", f.where, f.form, want)
		}
		delete(planted, f.where)
	}
	for where, form := range planted {
		t.Errorf("what was planted in %s (%s) is overlooked", where, form)
	}
	for _, err := range s.failed {
		t.Errorf("not searched: %v", err)
	}
	for _, role := range []string{"aisb-supervisor", "aisb-gate", "aisb-entry"} {
		for _, pid := range find(role) {
			if startOf(pid) >= startOf(os.Getpid()) { // else it is the user's own
				t.Errorf("after all tests %s still runs: %d", role, pid)
			}
		}
	}
	t.Logf("%s, in %v", s, took.Round(time.Millisecond))
}

// plant puts a canary into each kind of place, and returns these with the form in which
// it lies there.
func plant(t *testing.T, c canary) map[string]string {
	t.Helper()
	planted := map[string]string{}
	file := func(dir, name, form, text string) {
		t.Helper()
		path := write(t, dir, name, text)
		t.Cleanup(func() { os.Remove(path) })
		planted[path] = form
	}
	home := project(t)
	file(home, "plain", "plain", "a line\n"+c.value)
	file(home, "across", "plain", strings.Repeat("x", chunk+256-len(c.mark)/2)+c.mark) // the end of the first part that is read
	file(xdg, "encoded", "base64", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+c.mark)))
	file(agent.runtime, "hex", "hexadecimal", hex.EncodeToString([]byte(c.mark)))
	name := write(t, "/tmp", c.mark, "")
	t.Cleanup(func() { os.Remove(name) })
	planted["the name of "+name] = "plain"
	link := filepath.Join(home, "link")
	if err := os.Symlink("/nowhere/"+c.mark, link); err != nil {
		t.Fatal(err)
	}
	planted["the link "+link] = "plain"

	// A shell that has read it holds it in its memory alone.
	for what, start := range map[string]*exec.Cmd{
		"memory":      exec.CommandContext(context.Background(), "/bin/sh", "-c", `read -r x; echo ready; read -r y; : "$x"`, "holds-memory"),
		"environment": exec.CommandContext(context.Background(), "/bin/sh", "-c", "echo ready; read -r y", "holds-environment"),
		"arguments":   exec.CommandContext(context.Background(), "/bin/sh", "-c", "echo ready; read -r y", c.mark),
	} {
		start.Args[0] = "holds-" + what
		start.Env = []string{"PATH=/bin"}
		if what == "environment" {
			start.Env = append(start.Env, "KEY="+c.mark)
		}
		start.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(agent.uid), Gid: uint32(agent.gid)}}
		in, err := start.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := start.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := start.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			start.Process.Kill()
			start.Wait()
		})
		if what == "memory" {
			fmt.Fprintln(in, c.mark)
		}
		if n, err := out.Read(make([]byte, 16)); n == 0 {
			t.Fatal(err)
		}
		name := fmt.Sprintf("sh (%q)", []string{"holds-" + what})
		planted["the memory of "+name] = "plain"
		if what != "memory" {
			planted["the "+what+" of "+name] = "plain"
		}
	}
	return planted
}
