package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

// load lets clients loose until the time is over, and returns the memory at even
// times. What a client sees is not judged: a reload may cut it at any moment. That
// enough of them see an answer is.
func (g *gate) load(total time.Duration) (rss []int64, _ error) {
	hello, err := ground.ClientHello()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), total)
	defer cancel()
	var done, answered atomic.Int64
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			do := habits[i%len(habits)]
			for ctx.Err() == nil {
				if g.visit(do, hello) {
					answered.Add(1)
				}
				done.Add(1)
			}
		})
	}
	reloads := 0
	for every := max(total/40, time.Second); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
		reloads++
		m, err := g.Memory()
		if err == nil {
			err = os.WriteFile(g.rules, []byte(ruleSets[reloads%len(ruleSets)]), 0o600)
		}
		if err == nil {
			err = g.Signal(syscall.SIGHUP)
		}
		if err != nil {
			cancel()
			all.Wait()
			return nil, err
		}
		rss = append(rss, m.RSS)
	}
	all.Wait()
	fmt.Printf("soak: %d visits, %d with an answer, %d reloads\n", done.Load(), answered.Load(), reloads)
	if answered.Load() < done.Load()/10 || answered.Load() == 0 {
		return nil, fmt.Errorf("%d of %d visits had an answer", answered.Load(), done.Load())
	}
	return rss, nil
}

// visit is one connection of one habit.
func (g *gate) visit(do habit, hello []byte) (answered bool) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	return do(conn.(*net.TCPConn), hello)
}

// habit is how a client behaves.
type habit func(c *net.TCPConn, hello []byte) (answered bool)

var habits = []habit{
	polite, polite, resets, halfCloses, downloads, uploads, slowHead, slowReader, silent, web, refused, nonsense,
}

func connect(c *net.TCPConn, port int, hello []byte) bool {
	fmt.Fprintf(c, "CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n", ground.Host, port)
	var head []byte
	for b := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, b[0]) {
		if _, err := c.Read(b); err != nil {
			return false
		}
	}
	if _, err := c.Write(hello); err != nil || !strings.Contains(string(head), " 200 ") {
		return false
	}
	return true
}

func reads(c *net.TCPConn, n int64) bool {
	got, _ := io.CopyN(io.Discard, c, n)
	return got == n
}

func polite(c *net.TCPConn, hello []byte) bool {
	return connect(c, ground.TalkPort, hello) && reads(c, 4)
}

func resets(c *net.TCPConn, hello []byte) bool {
	ok := polite(c, hello)
	c.SetLinger(0)
	return ok
}

func halfCloses(c *net.TCPConn, hello []byte) bool {
	if !polite(c, hello) {
		return false
	}
	c.CloseWrite()
	_, err := io.Copy(io.Discard, c)
	return err == nil
}

func downloads(c *net.TCPConn, hello []byte) bool {
	return connect(c, ground.DownPort, hello) && reads(c, 8<<20)
}

func uploads(c *net.TCPConn, hello []byte) bool {
	if !connect(c, ground.UpPort, hello) {
		return false
	}
	const amount = 8 << 20
	c.Write(binary.BigEndian.AppendUint64(nil, amount))
	io.CopyN(c, zeros{}, amount)
	return reads(c, 4)
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// slowHead sends a head in pieces, and goes away in the middle of it.
func slowHead(c *net.TCPConn, _ []byte) bool {
	for range 20 {
		io.WriteString(c, "CONNE")
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// slowReader lets the gate's buffers fill up, and goes away.
func slowReader(c *net.TCPConn, hello []byte) bool {
	if !connect(c, ground.DownPort, hello) {
		return false
	}
	for range 5 {
		reads(c, 1000)
		time.Sleep(50 * time.Millisecond)
	}
	return true
}

// silent is quiet for long enough that its tunnel is put aside, and speaks again.
func silent(c *net.TCPConn, hello []byte) bool {
	if !polite(c, hello) {
		return false
	}
	time.Sleep(time.Duration(rand.N(12_000)) * time.Millisecond)
	c.Write([]byte("x"))
	return reads(c, 4)
}

func web(c *net.TCPConn, _ []byte) bool {
	for range 1 + rand.N(20) {
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", ground.Host)
		if !reads(c, ground.BodySize) {
			return false
		}
	}
	return true
}

func refused(c *net.TCPConn, _ []byte) bool {
	fmt.Fprintf(c, "CONNECT n%d.wild.allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", rand.N(10_000))
	return reads(c, 12)
}

func nonsense(c *net.TCPConn, _ []byte) bool {
	fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ground.Host)
	return reads(c, 12)
}
