package wire

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// client plays the steps.
func client(t *testing.T, addr string, v *Vector) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(limit))
	r := bufio.NewReader(conn)
	method := "GET"
	if len(v.Steps) > 0 {
		method, _, _ = strings.Cut(strings.TrimLeft(v.Steps[0].Text, "\r\n"), " ")
	}
	body := ""
	for _, s := range v.Steps {
		var err error
		switch s.Verb {
		case ">":
			_, err = io.WriteString(conn, s.Text)
		case "hello":
			err = sendHello(conn, s.Text, s.N)
		case "<":
			body, err = answer(r, method, s.Text)
		case "body":
			if !strings.Contains(body, s.Text) {
				err = fmt.Errorf("the body is %q", body)
			}
		case "=":
			got := make([]byte, len(s.Text))
			if _, err = io.ReadFull(r, got); err == nil && string(got) != s.Text {
				err = fmt.Errorf("got %q", got)
			}
		case "end":
			err = conn.(*net.TCPConn).CloseWrite()
		case "closed":
			err = closed(r)
		}
		if err != nil {
			t.Fatalf("line %d: %s %q: %v", s.Line, s.Verb, s.Text, err)
		}
	}
}

// established is the answer to a CONNECT, after which the tunnel begins.
const established = "HTTP/1.1 200 Connection established"

// answer reads one answer whose status line, after the version, begins with want.
func answer(r *bufio.Reader, method, want string) (body string, _ error) {
	if line, _ := r.Peek(len(established)); string(line) == established {
		method = http.MethodConnect // not the connection's first request
	}
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return "", err
	}
	if got := resp.Status; !strings.HasPrefix(got, want) || resp.Proto != "HTTP/1.1" {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return "", fmt.Errorf("got %s %s: %s", resp.Proto, got, b)
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
		return "", nil
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// closed demands that nothing follows but, at most, a TLS alert.
func closed(r io.Reader) error {
	b, err := io.ReadAll(r)
	if os.IsTimeout(err) {
		return fmt.Errorf("it stays open after %q", b)
	}
	if len(b) > 0 && b[0] != 21 {
		return fmt.Errorf("got %q", b)
	}
	return nil
}

// sendHello sends what crypto/tls sends first.
func sendHello(conn net.Conn, name string, piece int) error {
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		a.Close()
	}()
	buf := make([]byte, 1<<16)
	n, err := b.Read(buf)
	if err != nil {
		return err
	}
	if piece == 0 {
		piece = n
	}
	for hello := buf[:n]; len(hello) > 0; {
		m, err := conn.Write(hello[:min(piece, len(hello))])
		if err != nil {
			return err
		}
		hello = hello[m:]
	}
	return nil
}
