package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

// relay is the least that a proxy in Go can do: it takes any CONNECT, dials the
// one origin without asking a name server, judges nothing, logs nothing, and
// leaves the bytes to io.Copy, which splices.
func relay(port int) error {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go relayOne(c.(*net.TCPConn))
	}
}

func relayOne(client *net.TCPConn) {
	defer client.Close()
	r := bufio.NewReader(client)
	req, err := http.ReadRequest(r)
	if err != nil || req.Method != http.MethodConnect {
		return
	}
	_, to, err := net.SplitHostPort(req.Host)
	if err != nil {
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(ground.Address, to))
	if err != nil {
		return
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	down := make(chan struct{})
	go func() {
		io.Copy(client, server)
		client.CloseWrite()
		close(down)
	}()
	if early, _ := r.Peek(r.Buffered()); len(early) > 0 {
		server.Write(early)
	}
	r = nil // its buffer is not for the tunnel's life
	io.Copy(server, client)
	server.CloseWrite()
	<-down
}
