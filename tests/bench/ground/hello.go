package ground

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"net"
	"time"
)

// ClientHello is what a TLS client of this Go sends first, the same bytes for
// all.
func ClientHello() ([]byte, error) {
	near, far := net.Pipe()
	defer far.Close()
	go tls.Client(near, &tls.Config{ServerName: Host}).Handshake()
	far.SetDeadline(time.Now().Add(5 * time.Second))
	r := bufio.NewReader(far)
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	hello, err := r.Peek(5 + int(head[3])<<8 + int(head[4]))
	return bytes.Clone(hello), err
}
