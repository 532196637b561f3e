package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/proc"
)

// What the machine refuses at any step of a start is told with what to do about it, and
// what is known better is left as it is.
func TestStartFailure(t *testing.T) {
	_, missing := os.Open(filepath.Join(t.TempDir(), "missing"))
	at := func(err error) error {
		return fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "/x", Err: err})
	}
	for _, tt := range []struct {
		err  error
		hint string // a part; "" is none
	}{
		{at(unix.ENOSPC), "make room"},
		{at(unix.EROFS), "XDG_STATE_HOME"},
		{at(unix.EACCES), "XDG_STATE_HOME"},
		{fmt.Errorf("listen: %w", unix.EACCES), ""}, // of a port, say
		{fmt.Errorf("socket: %w", unix.EMFILE), "ulimit -n"},
		{fmt.Errorf("start the gate: %w", proc.ErrGone), "something outside"},
		{missing, ""},
		{&Failure{Status: 78, Err: at(unix.ENOSPC), Hint: "other"}, "other"},
	} {
		f, _ := errors.AsType[*Failure](startFailure(context.Background(), tt.err))
		if f == nil {
			f = &Failure{}
		}
		if tt.hint == "" && f.Hint != "" || !strings.Contains(f.Hint, tt.hint) {
			t.Errorf("%v: hint %q, want %q", tt.err, f.Hint, tt.hint)
		}
	}
}

// The end of a pasta is told at the second look that doesn't find it, since that of its
// sandbox may just have been seen here first.
func TestPastaEnd(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newPastaEnd(cmd.Process.Pid)
	defer p.close()
	p.look()
	p.look()
	if p.died() {
		t.Error("one that lives is taken for dead")
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	p.look()
	if p.died() {
		t.Error("told at the first look")
	}
	p.look()
	p.look()
	select {
	case <-p.ended:
	default:
		t.Error("not told at all")
	}
	var none *pastaEnd // of a run without one
	none.look()
	none.close()
	if none.died() {
		t.Error("what isn't there has died")
	}
}
