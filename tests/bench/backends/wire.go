package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// The server's protocol: a letter, a length of 8 bytes, then
//
//	U: so many bytes to the server, which answers with their SHA-256
//	D: so many bytes from the server, and their SHA-256
//	u, d: the same with bytes and a sum (CRC-32C) that cost next to nothing, so that
//	      the way is measured and not its ends
//	T: nothing; the server answers with a byte

// serve is the server on the host's loopback. It returns its port.
func serve() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if err := answer(conn); err != nil {
					fmt.Fprintln(os.Stderr, "backends: server:", err)
				}
			}()
		}
	}()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}

func answer(conn net.Conn) error {
	var head [9]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint64(head[1:]))
	sum, source := ends(head[0])
	switch head[0] {
	case 'U', 'u':
		if err := exactly(sum, conn, n); err != nil {
			return err
		}
		_, err := conn.Write(sum.Sum(nil))
		return err
	case 'D', 'd':
		if err := exactly(io.MultiWriter(conn, sum), source, n); err != nil {
			return err
		}
		_, err := conn.Write(sum.Sum(nil))
		return err
	case 'T':
		_, err := conn.Write([]byte{1})
		return err
	}
	return fmt.Errorf("unknown request %q", head[0])
}

// ends are how the bytes of a request are summed and where they come from.
func ends(way byte) (hash.Hash, io.Reader) {
	if way == 'u' || way == 'd' {
		return crc32.New(crc32.MakeTable(crc32.Castagnoli)), &block{}
	}
	return sha256.New(), pattern{}
}

// block is an endless stream of one block of random bytes.
type block struct{ b []byte }

func (s *block) Read(p []byte) (int, error) {
	if s.b == nil {
		s.b = make([]byte, 32<<10)
		rand.Read(s.b) // never fails (crypto/rand)
	}
	return copy(p, s.b), nil
}

// pattern is an endless stream of bytes that a lost or doubled block would show in.
type pattern struct{}

func (pattern) Read(p []byte) (int, error) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.BigEndian.PutUint64(p[i:], uint64(time.Now().UnixNano())+uint64(i))
	}
	return len(p), nil
}

// client is the side inside. It prints a sample as JSON.
func client(port string, s sizes) error {
	var out sample
	n := int64(s.mib) << 20
	for _, m := range []struct {
		way byte
		to  *float64
	}{{'U', &out.Up}, {'D', &out.Down}, {'u', &out.UpBare}, {'d', &out.DownBare}} {
		took, stall, err := transfer(port, m.way, n)
		if err != nil {
			return fmt.Errorf("transfer %c: %w", m.way, err)
		}
		*m.to = float64(s.mib) / took.Seconds()
		out.Stall = max(out.Stall, float64(stall.Microseconds())/1000)
	}
	begin := time.Now()
	if err := tunnels(port, s); err != nil {
		return fmt.Errorf("connections: %w", err)
	}
	out.Tunnels = float64(s.tunnels) / time.Since(begin).Seconds()
	return json.NewEncoder(os.Stdout).Encode(out)
}

// transfer moves n bytes and compares their sums. It returns how long it took
// and the longest pause between two blocks.
func transfer(port string, way byte, n int64) (took, stall time.Duration, err error) {
	conn, err := tunnel(port, way, n)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	sum, source := ends(way)
	begin := time.Now()
	watch := &watch{last: begin}
	if way == 'U' || way == 'u' {
		err = exactly(io.MultiWriter(conn, sum, watch), source, n)
	} else {
		err = exactly(io.MultiWriter(sum, watch), conn, n)
	}
	if err != nil {
		return 0, 0, err
	}
	theirs := make([]byte, sum.Size())
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return 0, 0, err
	}
	if !bytes.Equal(theirs, sum.Sum(nil)) {
		return 0, 0, errors.New("the bytes arrived changed")
	}
	return time.Since(begin), watch.longest, nil
}

// watch sees how long it is between two blocks.
type watch struct {
	last    time.Time
	longest time.Duration
}

func (w *watch) Write(p []byte) (int, error) {
	now := time.Now()
	w.longest, w.last = max(w.longest, now.Sub(w.last)), now
	return len(p), nil
}

func tunnels(port string, s sizes) error {
	var all sync.WaitGroup
	failed := make(chan error, s.width)
	for range s.width {
		all.Go(func() {
			for range s.tunnels / s.width {
				if err := ping(port); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func ping(port string) error {
	conn, err := tunnel(port, 'T', 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	var b [1]byte
	_, err = io.ReadFull(conn, b[:])
	return err
}

// tunnel opens one through the gate and sends the request's head.
func tunnel(port string, way byte, n int64) (net.Conn, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		return nil, err
	}
	target := "host.containers.internal:" + port
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	// The server says nothing before it was asked, so the reader takes no byte
	// of it.
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err == nil {
		_, err = conn.Write(binary.BigEndian.AppendUint64([]byte{way}, uint64(n)))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
