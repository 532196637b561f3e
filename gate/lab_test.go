package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// lab is a gate in this process, with a name server of its own. Its origins are
// on loopback, so it reaches them as services of the host, by the one name that
// leads there.
type lab struct {
	t    *testing.T
	gate *Gate
	addr string
	dns  *fakes.DNS
	log  lockedBuffer
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startLab starts a gate with rules; change may alter its configuration.
func startLab(t *testing.T, allow string, zone fakes.Zone, change func(*Config)) *lab {
	t.Helper()
	return startTweaked(t, allow, zone, change, func(*Gate) {})
}

// startTweaked starts a gate of which tweak has altered what is no configuration.
func startTweaked(t *testing.T, allow string, zone fakes.Zone, change func(*Config), tweak func(*Gate)) *lab {
	t.Helper()
	l := &lab{t: t}
	var err error
	if l.dns, err = fakes.StartDNS("127.0.0.1:0", zone, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.dns.Close() })
	cfg := Config{
		Policy:   l.policy(allow),
		Resolver: resolve.New(resolve.Config{Servers: []resolve.Server{{Transport: resolve.UDP, Addr: l.dns.Addr}}}),
		Log:      NewLog(&l.log, "run-1"),
		Clients:  Clients{UID: os.Getuid()},
		Command:  "aisb run",
	}
	if change != nil {
		change(&cfg)
	}
	if l.gate, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	tweak(l.gate)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- l.gate.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		l.gate.Drain(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l
}

func (l *lab) policy(allow string) *policy.Policy {
	l.t.Helper()
	var lines []policy.Line
	for r := range strings.FieldsSeq(allow) {
		lines = append(lines, policy.Line{Text: r, Origin: "test"})
	}
	p, _, err := policy.Parse(lines, nil, policy.Options{AllowAllNames: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// service is the name of an origin on this host's loopback.
func service(a netip.AddrPort) string { return fmt.Sprintf("%s:%d", policy.ServiceHost, a.Port()) }

// site starts a web server, and the rule that leads there.
func site(t *testing.T, h http.Handler) *fakes.Origin {
	t.Helper()
	o, err := fakes.StartHTTP("127.0.0.1:0", h, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

func tcpOrigin(t *testing.T, talk fakes.Talk) *fakes.TCP {
	t.Helper()
	o, err := fakes.StartTCP("127.0.0.1:0", talk, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

// deadPort is where nothing listens, and nothing else comes to listen meanwhile.
func deadPort(t *testing.T) netip.AddrPort {
	t.Helper()
	p, err := fakes.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p.Addr
}

// client is an HTTP client that uses the gate as its proxy.
func (l *lab) client() *http.Client {
	via := &url.URL{Scheme: "http", Host: l.addr}
	tr := &http.Transport{Proxy: http.ProxyURL(via), DisableCompression: true}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// raw is a raw connection to the gate.
type raw struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

func (l *lab) dial() *raw {
	l.t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &raw{c.(*net.TCPConn), l.t, bufio.NewReader(c)}
}

func (c *raw) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// head reads an answer's head and returns its status line.
func (c *raw) head() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	for {
		next, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("half an answer: %v", err)
		}
		if next == "\r\n" {
			return strings.TrimSpace(line)
		}
	}
}

// rest reads to the end.
func (c *raw) rest() string {
	b, err := io.ReadAll(c.r)
	if err != nil {
		return string(b) + " (" + err.Error() + ")"
	}
	return string(b)
}

// connect opens a tunnel.
func (l *lab) connect(target string) *raw {
	l.t.Helper()
	c := l.dial()
	c.send("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
	if status := c.head(); status != "HTTP/1.1 200 Connection established" {
		l.t.Fatalf("CONNECT %s: %s", target, status)
	}
	return c
}

// waitLog waits until a line of the log satisfies ok.
func (l *lab) waitLog(ok func(map[string]any) bool) map[string]any {
	l.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for line := range strings.Lines(l.log.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				l.t.Fatalf("log line %q: %v", line, err)
			}
			if ok(m) {
				return m
			}
		}
		time.Sleep(2 * time.Millisecond) // the gate logs after the client has its answer
	}
	l.t.Fatalf("no such line in the log:\n%s", l.log.String())
	return nil
}

func event(name string) func(map[string]any) bool {
	return func(m map[string]any) bool { return m["event"] == name }
}

// patience bounds each wait for what must come. It is reached by a hang alone.
const patience = 20 * time.Second

// until waits for something to become true, or fails with what is the case then.
func (l *lab) until(ok func() bool, otherwise string) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatal(otherwise)
		}
	}
}

// counted waits until a number is between two others.
func (l *lab) counted(what string, number func() int, least, most int) {
	l.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		n := number()
		if n >= least && n <= most {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("%s: %d, want %d to %d", what, n, least, most)
		}
	}
}

// noneLeft waits until no connection is held.
func (l *lab) noneLeft() {
	l.t.Helper()
	l.counted("connections held", func() int { return len(l.gate.slots) }, 0, 0)
}

// unhurried lets a client take as long as it likes over what it still sends when it has
// its answer, and an origin over what it says to a body that is kept back: a machine that
// is busy elsewhere takes longer than a gate would wait.
func unhurried(g *Gate) { g.times.linger, g.times.ask = time.Minute, time.Minute }
