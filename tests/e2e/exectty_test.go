//go:build e2e

package e2e

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// TestExecTerminal: exec at a terminal gives its command one, with its size and its keys.
func TestExecTerminal(t *testing.T) {
	s := waiting(t)
	master, slave := openTerminal(t)
	defer master.Close()
	setSize(t, master, 33, 101)
	before := stty(t, slave)
	cmd := s.c.command(context.Background(), "exec", s.name, "--", "bash", "-c",
		`stty size; tty; echo "[$TERM]"; trap 'stty size' WINCH; trap 'echo got-int; exit 6' INT; echo ready; while :; do sleep 0.05; done`)
	cmd.Env = append(cmd.Env, "TERM=xterm-test")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setctty = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, pty: master, cmd: cmd, screen: &output{}, ended: make(chan struct{})}
	go io.Copy(x.screen, master) // ends with the test's closing it
	go func() {
		cmd.Wait() // the status is in ProcessState
		io.WriteString(slave, "<the end>")
		for !strings.Contains(x.screen.String(), "<the end>") { // all before it was copied
			time.Sleep(5 * time.Millisecond)
		}
		close(x.ended)
	}()
	x.waitScreen("ready", 1)
	wantIn(t, "screen", x.screen.String(), "33 101\r\n", "/dev/pts/", "[xterm-test]")
	setSize(t, master, 44, 122)
	x.waitScreen("44 122\r\n", 1)
	x.typed("\x03")
	x.waitScreen("got-int", 1)
	x.wait(6)
	if after := stty(t, slave); after != before {
		t.Errorf("the terminal was %s and is %s", before, after)
	}
	slave.Close()
	// A terminal on demand, for a program that wants one.
	if o := s.exec(t, "", "-t", "--", "tty"); !strings.HasPrefix(o.stdout, "/dev/pts/") {
		t.Errorf("-t: %+v", o)
	}
	s.ends(t)
}
