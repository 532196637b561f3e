package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ports are those on which something answers at every address.
var ports = []int{22, 80, 443, 5432, 8080, 8443}

// world is everything outside.
type world struct {
	mu    sync.Mutex
	out   *json.Encoder
	conns map[net.Conn]bool
	all   sync.WaitGroup

	marks chan bool // a connection of sync's own was accepted
}

// internet serves until its standard input ends.
func internet() int {
	in := bufio.NewScanner(os.Stdin)
	in.Scan() // the veth device is there
	for _, c := range []string{
		"link set lo up", "addr add 10.99.0.2/30 dev world0", "addr add fd99::2/64 dev world0 nodad", "link set world0 up",
		// Every address is here, except the gate's, to which a longer route leads.
		"route add local 0.0.0.0/0 dev lo table main", "-6 route add local ::/0 dev lo table main",
	} {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "ip %s: %v: %s", c, err, out)
			return 1
		}
	}
	w := &world{out: json.NewEncoder(os.Stdout), conns: map[net.Conn]bool{}, marks: make(chan bool)}
	for _, port := range ports {
		ln, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go w.accept(ln)
	}
	fmt.Println("ready")
	for in.Scan() {
		w.sync()
	}
	return 0
}

func (w *world) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		if from, ok := c.RemoteAddr().(*net.TCPAddr); ok && from.IP.IsLoopback() {
			c.Close()
			w.marks <- true
			continue
		}
		w.mu.Lock()
		w.conns[c] = true
		w.mu.Unlock()
		w.all.Go(func() { w.serve(c) })
	}
}

// sync ends all connections and says when they are reported.
func (w *world) sync() {
	// What the gate has sent is on its way through the kernel at most.
	time.Sleep(20 * time.Millisecond)
	for _, port := range ports { // connections are accepted in their order
		c, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", port))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		<-w.marks
		c.Close()
	}
	w.mu.Lock()
	for c := range w.conns {
		c.SetDeadline(time.Now())
	}
	w.mu.Unlock()
	w.all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Encode(dial{Sync: "done"})
}

// serve answers each HTTP request with its own head, a ClientHello with four
// bytes, and everything else with itself.
func (w *world) serve(c net.Conn) {
	var got bytes.Buffer
	defer func() {
		rest(c, &got)
		c.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, c)
		w.out.Encode(dial{To: c.LocalAddr().String(), Received: got.String()})
	}()
	r := bufio.NewReader(io.TeeReader(c, &got))
	first, err := r.Peek(1)
	if err != nil {
		return
	}
	switch {
	case first[0] == 22:
		head, err := r.Peek(5)
		if err != nil {
			return
		}
		if _, err := r.Peek(5 + int(head[3])<<8 + int(head[4])); err == nil {
			io.WriteString(c, "TLS!")
		}
		io.Copy(io.Discard, r)
	case first[0] >= 'A' && first[0] <= 'Z' && !strings.HasSuffix(c.LocalAddr().String(), ":22"):
		w.serveHTTP(c, r)
	default:
		io.Copy(c, r)
	}
}

// rest takes what has come and was not read before sync ended the connection.
func rest(c net.Conn, got *bytes.Buffer) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	// Control, unlike Read, asks for no deadline.
	_ = raw.Control(func(fd uintptr) {
		buf := make([]byte, 64<<10)
		for {
			n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			if n <= 0 || err != nil {
				return
			}
			got.Write(buf[:n])
		}
	})
}

func (w *world) serveHTTP(c net.Conn, r *bufio.Reader) {
	for {
		var head strings.Builder
		length := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
			fmt.Sscanf(line, "Content-Length: %d", &length)
			if strings.HasPrefix(line, "Transfer-Encoding: chunked") {
				length = -1
			}
		}
		if length >= 0 {
			if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
				return
			}
		} else if !drainChunks(r) {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Origin: 1\r\nContent-Length: %d\r\n\r\n%s", head.Len(), head.String())
	}
}

// drainChunks reads to the end of a chunked body.
func drainChunks(r *bufio.Reader) bool {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		var n int64
		if _, err := fmt.Sscanf(line, "%x\r\n", &n); err != nil {
			return false
		}
		if n == 0 {
			line, err = r.ReadString('\n')
			return err == nil && line == "\r\n"
		}
		if _, err := io.CopyN(io.Discard, r, n+2); err != nil {
			return false
		}
	}
}
