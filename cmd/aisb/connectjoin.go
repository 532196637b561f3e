package main

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// joinStreams passes bytes on in both directions, each until its own end: when one
// has ended, the other goes on. When nothing at all has come, silent may say why,
// while whoever reads out still waits: ssh kills its ProxyCommand at the end of
// file.
func joinStreams(conn *net.TCPConn, from io.Reader, in, out *os.File, silent func() error) error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, in) // an error means that the host takes no more, which it may
		conn.CloseWrite()
	}()
	got, err := io.Copy(out, from)
	if got == 0 && (err == nil || errors.Is(err, syscall.ECONNRESET)) {
		if why := silent(); why != nil {
			return why
		}
	}
	out.Close()
	if err != nil || isTerminal(in) {
		// Nobody takes what else is said, or a person would have to press a key to
		// hear of the end. The process ends, and the other direction with it.
		return err
	}
	<-sent
	return nil
}
