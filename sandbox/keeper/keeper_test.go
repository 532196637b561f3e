package keeper

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/control"
)

func TestOutputIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output")
	o, err := newOutput(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		o.Write([]byte(strings.Repeat(string(rune('a'+i%26)), 9) + "\n"))
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := CopyOutput(&got, path); err != nil {
		t.Fatal(err)
	}
	if got.Len() > 200 || got.Len() <= 100 || !strings.HasSuffix(got.String(), "uuuuuuuuu\nvvvvvvvvv\n") {
		t.Errorf("%d bytes: %q", got.Len(), got.String())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := newOutput(path, 100); err == nil {
		t.Error("it was made twice")
	}
	if err := CopyOutput(io.Discard, path+"-none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestOutputNeverHoldsUp: a disk that takes nothing is told of at the end.
func TestOutputNeverHoldsUp(t *testing.T) {
	o := &Output{path: filepath.Join(t.TempDir(), "output"), max: 1 << 20}
	var err error
	if o.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Write([]byte("text")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := o.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

// kept is a command with a terminal that somebody keeps: the test is the command.
type kept struct {
	*Keeper
	tty     *os.File
	output  string
	ended   chan struct{}
	signals chan syscall.Signal
}

func keep(t *testing.T) *kept {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	raw, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	raw.Lflag &^= unix.ECHO | unix.ICANON
	raw.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, raw); err != nil {
		t.Fatal(err)
	}
	k := &kept{tty: slave, output: filepath.Join(t.TempDir(), "output"), ended: make(chan struct{}), signals: make(chan syscall.Signal, 1)}
	out, err := NewOutput(k.output)
	if err != nil {
		t.Fatal(err)
	}
	k.Keeper, err = Keep(Streams{PTY: master}, out, func(s syscall.Signal) error { k.signals <- s; return nil }, k.ended)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// joined is a client.
type joined struct {
	conn    *fdmsg.Conn
	streams []*os.File
}

func (k *kept) join(t *testing.T, a control.Attach) *joined {
	t.Helper()
	files, err := k.Attach(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := fdmsg.FromFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	j := &joined{conn: conn, streams: files[1:]}
	t.Cleanup(j.leave)
	return j
}

func (j *joined) leave() {
	j.conn.Close()
	closeAll(j.streams)
}

func (j *joined) wantRead(t *testing.T, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(j.streams[0], b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v, want %q", b, err, want)
	}
}

func (j *joined) wantEnd(t *testing.T, want control.AttachEnd) {
	t.Helper()
	var e control.AttachEnd
	if _, err := j.conn.Recv(&e); err != nil || e.GoesOn != want.GoesOn || e.Status != want.Status || len(e.Words) != len(want.Words) {
		t.Errorf("%+v, %v, want %+v", e, err, want)
	}
}

func (k *kept) kept(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		var got bytes.Buffer
		if err := CopyOutput(&got, k.output); err != nil {
			t.Fatal(err)
		}
		if got.String() == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("kept %q, want %q", got.String(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// sized waits until the terminal has a size.
func (k *kept) sized(t *testing.T, rows, cols uint16) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		size, err := unix.IoctlGetWinsize(int(k.tty.Fd()), unix.TIOCGWINSZ)
		if err == nil && size.Row == rows && size.Col == cols {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the size is %+v, %v", size, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKeeper: nothing that the command writes is lost or holds it up while nobody
// looks; who attaches sees what comes and types; when it goes, the command goes on.
func TestKeeper(t *testing.T) {
	k := keep(t)
	io.WriteString(k.tty, "before ")
	k.kept(t, "before ")
	one := k.join(t, control.Attach{Rows: 30, Cols: 90})
	k.sized(t, 30, 90)
	io.WriteString(k.tty, "one ")
	one.wantRead(t, "one ")
	io.WriteString(one.streams[0], "typed")
	b := make([]byte, 5)
	if _, err := io.ReadFull(k.tty, b); err != nil || string(b) != "typed" {
		t.Errorf("%q, %v", b, err)
	}
	one.leave()
	io.WriteString(k.tty, "alone ")
	k.kept(t, "before one alone ")

	two := k.join(t, control.Attach{})
	three := k.join(t, control.Attach{})
	two.wantEnd(t, taken)
	io.WriteString(k.tty, "three")
	three.wantRead(t, "three")
	if err := three.conn.Send(control.AttachControl{Signal: 10}); err != nil {
		t.Fatal(err)
	}
	if sig := <-k.signals; sig != 10 {
		t.Errorf("signal %d", sig)
	}
	waits := k.join(t, control.Attach{Wait: true})
	close(k.ended)
	if _, err := k.Attach(t.Context(), control.Attach{}); !errors.Is(err, errEnded) {
		t.Errorf("attached to one whose command has ended: %v", err)
	}
	late := k.join(t, control.Attach{Wait: true})
	k.tty.Close()
	<-k.Drained()
	k.kept(t, "before one alone three")
	end := control.AttachEnd{Status: 7, Words: []string{"aisb: ended"}}
	k.End(end)
	three.wantEnd(t, end)
	waits.wantEnd(t, end)
	late.wantEnd(t, end)
	if rest, err := io.ReadAll(three.streams[0]); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if _, err := k.Attach(t.Context(), control.Attach{Wait: true}); !errors.Is(err, errEnded) {
		t.Errorf("waits for one that is gone: %v", err)
	}
}

// TestKeeperOfASlowClient: one that doesn't read holds the command up, as a terminal
// does, but neither the next client nor the end.
func TestKeeperOfASlowClient(t *testing.T) {
	k := keep(t)
	k.join(t, control.Attach{})
	flood := make(chan struct{})
	go func() {
		defer close(flood)
		for range 64 {
			k.tty.Write(bytes.Repeat([]byte("x"), 16<<10))
		}
	}()
	next := k.join(t, control.Attach{})
	next.wantRead(t, "x")
	close(k.ended)
	<-flood // the client's time has run out
	k.tty.Close()
	<-k.Drained()
}

func TestKeeperOfPipes(t *testing.T) {
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{output: filepath.Join(t.TempDir(), "output")}
	o, err := NewOutput(k.output)
	if err != nil {
		t.Fatal(err)
	}
	if k.Keeper, err = Keep(Streams{Stdout: out, Stderr: errs}, o, func(syscall.Signal) error { return nil }, nil); err != nil {
		t.Fatal(err)
	}
	c := k.join(t, control.Attach{})
	io.WriteString(errW, "error")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c.streams[1], b); err != nil || string(b) != "error" {
		t.Errorf("%q, %v", b, err)
	}
	io.WriteString(outW, "text")
	c.wantRead(t, "text")
	outW.Close()
	errW.Close()
	<-k.Drained()
	k.kept(t, "errortext")
}
