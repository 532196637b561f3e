//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scene is a command of the recording: what is said before it, what it returns and shows.
type scene struct {
	says, command string
	status        int
	shows         []string
}

// firstFiveMinutes is what docs/first-five-minutes.cast shows.
var firstFiveMinutes = []scene{
	{says: "One host is allowed, all others are refused.",
		command: "aisb run --allow allowed.test -- curl -sS http://allowed.test/hello",
		shows:   []string{"origin GET allowed.test /hello", "fence proved by", "reached allowed.test:80"}},
	{command: "aisb run --allow allowed.test -- curl -sS https://evil.test/", status: 56,
		shows: []string{"response 403", "refused evil.test:443 (not-listed); to allow it: --allow evil.test"}},
	{says: "Why? Ask for a rule, without a sandbox.",
		command: "aisb check --allow '*.allowed.test' evil.test", status: 1,
		shows: []string{"not-listed"}},
	{says: "Past the gate there is nothing.",
		command: "aisb run --allow allowed.test -- curl -sS --noproxy '*' --max-time 3 https://evil.test/", status: 6,
		shows: []string{"Could not resolve host"}},
	{says: "The project is there, and nothing else of yours.",
		command: "echo 'hello from outside' >notes.txt; aisb run --net none -- sh -c 'cat notes.txt; id -un; ls ~/.ssh; env | grep -c SECRET'", status: 1,
		shows: []string{"hello from outside", "No such file or directory", "\n0\r\n"}},
	{says: "Rules that stay: in the project, once you have approved them.",
		command: `echo 'allow = ["allowed.test"]' >.aisb.toml; aisb config trust --yes`,
		shows:   []string{"approved"}},
	{command: "aisb run -- curl -sS http://allowed.test/again", shows: []string{"origin GET allowed.test /again"}},
	{says: "What the last run reached and was refused:",
		command: "aisb gate logs", shows: []string{"allowed.test"}},
}

// TestFirstFiveMinutes plays the recording on a terminal, and writes it anew to the
// file that AISB_E2E_CAST names.
func TestFirstFiveMinutes(t *testing.T) {
	gone := wantNothingLeft(t)
	home := project(t)
	dir := filepath.Join(home, "my-project")
	config := filepath.Join(home, "config")
	for _, d := range []string{dir, config, config + "/aisb"} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Chown(d, agent.uid, agent.gid)); err != nil {
			t.Fatal(err)
		}
	}
	// podman's own settings stay those of the user.
	if err := os.Symlink(filepath.Join(agent.home, ".config/containers"), config+"/containers"); err != nil {
		t.Fatal(err)
	}
	write(t, config+"/aisb", "config.toml", fmt.Sprintf("image = %q\nresolver = %q\nnet-backend = %q\npids-limit = \"0\"\n", testImage, routerAddr, backend))
	r := &recording{hide: strings.NewReplacer(dir, "~/my-project", filepath.Join(xdg, "state"), "~/.local/state", home, "~")}
	for _, s := range firstFiveMinutes {
		r.say(s)
		r.play(t, call{dir: dir, bin: "/bin/bash", env: []string{
			"XDG_CONFIG_HOME=" + config, "TERM=xterm-256color", "AISB_SECRET=" + hostSecret,
			"PATH=" + filepath.Dir(binary) + ":/usr/local/bin:/usr/bin:/bin",
		}}, s)
	}
	r.write(t, os.Getenv("AISB_E2E_CAST"))
	gone()
}

// Times of the recording, in seconds: what it would be dull to wait for is shortened.
const (
	keyTime   = 0.03 // a key
	readTime  = 1.5  // what was printed
	mostPause = 1.0  // of a command
)

// recording is a terminal's, in the format asciicast 2: a time in seconds and what was
// printed then.
type recording struct {
	now  float64
	rows []any
	hide *strings.Replacer
}

func (r *recording) out(text string) {
	r.rows = append(r.rows, []any{float64(int(r.now*1000)) / 1000, "o", r.hide.Replace(text)})
}

// say is what someone types.
func (r *recording) say(s scene) {
	if s.says != "" {
		r.out("\x1b[2m# " + s.says + "\x1b[0m\r\n")
	}
	r.out("$ ")
	for _, key := range s.command {
		r.now += keyTime
		r.out(string(key))
	}
	r.now += 0.3
	r.out("\r\n")
}

// play runs the command on a terminal.
func (r *recording) play(t *testing.T, c call, s scene) {
	t.Helper()
	master, slave := openTerminal(t)
	defer master.Close()
	setSize(t, master, 30, 110)
	cmd := c.command(t.Context(), "-c", s.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setctty = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var screen bytes.Buffer
	last := time.Now()
	buf := make([]byte, 32<<10)
	for {
		n, err := master.Read(buf) // ends with EIO when no process has the other side any more
		if n > 0 {
			r.now += min(time.Since(last).Seconds(), mostPause)
			last = time.Now()
			screen.Write(buf[:n])
			r.out(string(buf[:n]))
		}
		if err != nil {
			if !errors.Is(err, syscall.EIO) && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r.now += readTime
	if got := cmd.ProcessState.ExitCode(); got != s.status {
		t.Errorf("%s: status %d, want %d:\n%s", s.command, got, s.status, &screen)
	}
	wantIn(t, s.command, screen.String(), s.shows...)
}

func (r *recording) write(t *testing.T, name string) {
	t.Helper()
	if name == "" || t.Failed() {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	rows := append([]any{map[string]any{"version": 2, "width": 110, "height": 30, "title": "aisb: the first five minutes"}}, r.rows...)
	for _, row := range rows {
		if err := enc.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
