//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// TestPipesCarryMuch sends 1 GiB in and out again, unharmed, and nothing of
// aisb's own on stdout.
func TestPipesCarryMuch(t *testing.T) {
	const size = 1 << 30
	cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed, "cat")...)
	cmd.Stdin = fakes.Pattern(size)
	sum, want := sha256.New(), sha256.New()
	var n int64
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		n += int64(len(p))
		return sum.Write(p)
	})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	t.Logf("%d MiB in %v", n>>20, time.Since(begin).Round(time.Millisecond))
	if _, err := io.Copy(want, fakes.Pattern(size)); err != nil {
		t.Fatal(err)
	}
	if n != size || !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes came out, with another sum than went in", n)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestPipes: standard error is kept apart, an end of file arrives, a closed
// reader ends the writer, and a command that reads nothing is not waited for.
func TestPipes(t *testing.T) {
	t.Run("apart", func(t *testing.T) {
		o := call{dir: project(t), stdin: "in\n"}.aisb(t, allowed, sh("cat; echo err >&2; cat; echo out")...)
		o.wantStatus(t, 0)
		if o.stdout != "in\nout\n" {
			t.Errorf("stdout %q", o.stdout)
		}
		if !strings.Contains(o.stderr, "err\n") {
			t.Errorf("stderr %q", o.stderr)
		}
	})
	t.Run("stdin not read", func(t *testing.T) {
		l := call{dir: project(t)}.start(t, allowed, sh("echo done")...)
		l.waitOut("done\n") // its stdin stays open
		l.wait(runTimeout).wantStatus(t, 0)
	})
	t.Run("reader gone", func(t *testing.T) {
		cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed, sh("yes; echo $? >status")...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		out.Close()
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(runTimeout):
			t.Error("the writer goes on without a reader")
		}
		status, err := os.ReadFile(cmd.Dir + "/status")
		if err != nil || (string(status) != "141\n" && string(status) != "1\n") { // SIGPIPE, or EPIPE where it is ignored
			t.Errorf("the writer ended with %q, %v", status, err)
		}
	})
	t.Run("background process keeps stdout", func(t *testing.T) {
		o := aisb(t, allowed, sh("sleep 1000 & echo done")...) // which is longer than runTimeout
		o.wantStatus(t, 0)
		if o.stdout != "done\n" {
			t.Errorf("%q", o.stdout)
		}
	})
}

// TestTwentyAtOnce: sandboxes in one directory at one time, each with a list of
// its own, don't disturb each other. Each reaches what it may, and by no gate what
// another may. Without --share the first would keep the directory to itself (TestShare).
func TestTwentyAtOnce(t *testing.T) {
	const n = 20
	gone := wantNothingLeft(t)
	dir := project(t)
	mark := internet.mark()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			script := fmt.Sprintf(`me=%d n=%d
				curl -sS "http://n$me.test/$me" >"out-$me"
				echo "$http_proxy" >".gate-$me"; mv ".gate-$me" "gate-$me"
				until [ "$(ls gate-* | wc -l)" = $n ]; do sleep 0.1; done
				next=$(( (me + 1) %% n ))
				echo "listed nowhere $(curl -s -o /dev/null -w '%%{http_code}' "http://n$next.test/stolen")"
				for gate in gate-*; do
					proxy=$(cat "$gate")
					if [ "$proxy" != "$http_proxy" ] && curl -s --max-time 5 --proxy "$proxy" "http://n${gate#gate-}.test/stolen"; then
						echo "answered by $gate"
					fi
				done
				exit $((10 + me))`, i, n)
			cmd := call{dir: dir}.command(t.Context(), runArgs([]string{"--share", "--allow", fmt.Sprintf("n%d.test", i)}, sh(script)...)...)
			out, err := cmd.Output()
			exit, isExit := errors.AsType[*exec.ExitError](err)
			if isExit && cmd.ProcessState.ExitCode() != 10+i {
				t.Logf("run %d said: %s", i, exit.Stderr)
			}
			if !isExit || cmd.ProcessState.ExitCode() != 10+i || string(out) != "listed nowhere 403\n" {
				t.Errorf("run %d: %v\n%s", i, err, out)
			}
			got, err := os.ReadFile(fmt.Sprintf("%s/out-%d", dir, i))
			if want := fmt.Sprintf("origin GET n%d.test /%d\n", i, i); err != nil || string(got) != want {
				t.Errorf("run %d: %q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	for _, e := range internet.since(t, mark, "http") {
		if strings.Contains(e.Path, "stolen") {
			t.Errorf("reached: %+v", e)
		}
	}
	gone()
}
