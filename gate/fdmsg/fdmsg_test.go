package fdmsg

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type note struct{ Text string }

func pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	b, err := FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestDescriptorsArriveWithTheirMessage(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	big := strings.Repeat("x", 1<<20) // over the socket's buffer: needs several writes
	sent := make(chan error, 1)
	go func() {
		err := a.Send(note{big})
		if err == nil {
			err = a.Send(note{"with a pipe"}, w)
		}
		w.Close()
		sent <- err
	}()

	var got note
	m, err := b.Recv(&got)
	if err != nil || got.Text != big || len(m.Files) != 0 {
		t.Fatalf("first message: %d bytes, %d files, err %v", len(got.Text), len(m.Files), err)
	}
	m, err = b.Recv(&got)
	if err != nil || got.Text != "with a pipe" || len(m.Files) != 1 {
		t.Fatalf("second message: %q, %d files, err %v", got.Text, len(m.Files), err)
	}
	if m.PID != os.Getpid() {
		t.Errorf("sender: got pid %d, want %d", m.PID, os.Getpid())
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if _, err := m.Files[0].WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	m.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "hello" {
		t.Errorf("through the pipe: got %q, %v", text, err)
	}
}

// TestSendNow: a peer that doesn't read holds nobody up, and gets what was sent whole.
func TestSendNow(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	a.SetDeadline(time.Now().Add(10 * time.Second)) // what waits fails by it
	sent := 0
	for ; err == nil; sent++ {
		err = a.SendNow(note{strings.Repeat("x", sent%1000)}, []*os.File{w}[:min(1, sent%100/99)]...)
	}
	sent--
	if !errors.Is(err, ErrBusy) || sent < 10 {
		t.Fatalf("after %d: %v", sent, err)
	}
	for i := range sent {
		var got note
		m, err := b.Recv(&got)
		if err != nil || len(got.Text) != i%1000 || len(m.Files) != min(1, i%100/99) {
			t.Fatalf("message %d of %d: %d bytes, %d files, %v", i, sent, len(got.Text), len(m.Files), err)
		}
		m.Close()
	}
	if err := a.SendNow(note{"again"}); err != nil {
		t.Errorf("to a peer that has read: %v", err)
	}
	if err := a.SendNow(note{strings.Repeat("x", maxNow)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large one: %v", err)
	}
	b.Close()
	if err := a.SendNow(note{}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("to a peer that is gone: %v", err)
	}
}

func TestEndOfStream(t *testing.T) {
	a, b := pair(t)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var got note
	if _, err := b.Recv(&got); !errors.Is(err, io.EOF) {
		t.Errorf("after CloseWrite: got %v, want EOF", err)
	}
	if err := b.Send(note{"still open this way"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Recv(&got); err != nil || got.Text == "" {
		t.Errorf("other direction: got %q, %v", got.Text, err)
	}
}

func TestBrokenPeers(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"cut in the header": {"\x00\x00", io.ErrUnexpectedEOF},
		"cut in the text":   {"\x00\x00\x00\x09{", io.ErrUnexpectedEOF},
		"too long":          {"\xff\xff\xff\xff", ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			if _, err := a.c.Write([]byte(c.bytes)); err != nil {
				t.Fatal(err)
			}
			a.Close()
			var got note
			if _, err := b.Recv(&got); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	a, _ := pair(t)
	if err := a.Send(note{strings.Repeat("x", maxMessage)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("sending too much: got %v", err)
	}
}
