package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Two streams of a command that end in one terminal don't get into one another's
// sequences, although the terminal takes what is written to it in parts: a process that
// shares it has made it non-blocking.
func TestTwoStreamsOneTerminal(t *testing.T) {
	master, slave := openPty(t)
	var tty [2]*os.File
	for i := range tty {
		fd, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		tty[i] = os.NewFile(uintptr(fd), "tty")
		defer tty[i].Close()
	}
	r := &relay{}
	streams := map[*screen]string{
		r.screen(tty[0], false): strings.Repeat("\x1b[1;31m", 50_000),
		r.screen(tty[1], false): strings.Repeat("]52;c;aGk=\a", 20_000), // without the ESC that it wants
	}
	if err := unix.SetNonblock(int(tty[0].Fd()), true); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	n := 0
	for s, text := range streams {
		n += len(text)
		writers.Go(func() {
			if _, err := io.WriteString(s, text); err != nil {
				t.Error(err)
			}
		})
	}
	got := make([]byte, n)
	if _, err := io.ReadFull(master, got); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	if rest := strings.ReplaceAll(string(got), "\x1b[1;31m", ""); strings.Contains(rest, "\x1b") {
		t.Error("a sequence was made of two streams")
	}
}
