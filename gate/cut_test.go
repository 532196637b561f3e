package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// Plain requests and websockets are cut by a reload as tunnels are.
func TestSetPolicyCutsRequests(t *testing.T) {
	web := site(t, nil)
	l := startLab(t, service(web.Addr), nil, nil)
	base := "http://" + service(web.Addr)
	hang, ws := l.dial(), l.dial()
	hang.send(crlf("GET "+base+"/hang HTTP/1.1", "Host: x", ""))
	ws.send(crlf("GET "+base+"/switch HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", ""))
	ws.head()
	l.until(func() bool { return strings.Count(l.log.String(), `"allow"`) == 2 }, "they are not both allowed")
	l.gate.SetPolicy(l.policy("other.test"))
	for name, c := range map[string]*raw{"request": hang, "websocket": ws} {
		if b, err := c.r.ReadByte(); err == nil {
			t.Errorf("the %s goes on: %q", name, b)
		}
	}
	l.noFlows()
	if got := l.endings(); !slices.Equal(got, []string{"allow", "allow", "close policy-changed", "close policy-changed"}) {
		t.Errorf("the log has %q", got)
	}
}

// A client of HTTP/1.0 that has half an answer when it is cut is not left to take it for
// the whole.
func TestCutIsNoEnd(t *testing.T) {
	web := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	l := startLab(t, service(web.Addr), nil, nil)
	c := l.dial()
	c.send(crlf("GET http://"+service(web.Addr)+"/ HTTP/1.0", ""))
	c.head()
	if _, err := io.ReadFull(c.r, make([]byte, len("half"))); err != nil {
		t.Fatal(err)
	}
	l.gate.SetPolicy(l.policy("other.test"))
	if b, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after half of it came %q, %v", b, err)
	}
}

// endings are the events of the log and what the gate ended, in no order.
func (l *lab) endings() (got []string) {
	l.t.Helper()
	l.gate.log.Write(Record{Event: EventReload}) // takes along what waits
	for line := range strings.Lines(l.log.String()) {
		var m struct{ Event, Reason string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			l.t.Fatalf("log line %q: %v", line, err)
		}
		switch m.Event {
		case "reload":
		case "allow":
			got = append(got, m.Event)
		default:
			got = append(got, m.Event+" "+m.Reason)
		}
	}
	slices.Sort(got)
	return got
}

// What is cut before it is connected to anything has one line too, that tells of the cut
// and of no failure: while its name is looked up, and while it is connected. Whose client
// leaves meanwhile has one as well: a name was asked for.
func TestCutBeforeConnected(t *testing.T) {
	ends := map[string]func(*lab, *raw){
		"deny policy-changed": func(l *lab, _ *raw) { l.gate.SetPolicy(l.policy("other.test")) },
		"deny shutdown": func(l *lab, _ *raw) {
			ctx, cancel := context.WithCancel(l.t.Context())
			cancel()
			l.gate.Drain(ctx)
		},
		"error": func(_ *lab, c *raw) { c.Close() },
	}
	asked := make(chan struct{}, 8)
	mute := startParent(t, func(c net.Conn, r *bufio.Reader) {
		asked <- struct{}{}
		io.Copy(io.Discard, r)
	})
	for request, head := range map[string]string{"request": "GET http://%s/ HTTP/1.1", "tunnel": "CONNECT %s:443 HTTP/1.1"} {
		for want, end := range ends {
			if request == "tunnel" && want == "error" {
				continue // it is connected all the same: the client may have closed one direction alone
			}
			t.Run("resolving, "+request+", "+want, func(t *testing.T) {
				l := startTweaked(t, "slow.test", fakes.Zone{"slow.test": {Silent: true}}, nil, unhurried)
				c := l.dial()
				c.send(crlf(fmt.Sprintf(head, "slow.test"), "Host: x", ""))
				l.until(func() bool { return len(l.dns.Log.Names()) > 0 }, "nobody asks for the name")
				end(l, c)
				l.hasAlone(strings.Replace(want, "error", "error dns-failure", 1))
			})
			t.Run("connecting, "+request+", "+want, func(t *testing.T) {
				l := startTweaked(t, "a.test", fakes.Hosts(map[string][]string{"a.test": {"9.9.9.9"}}),
					func(c *Config) { c.Upstream = &Upstream{Addr: mute.addr} }, unhurried)
				c := l.dial()
				c.send(crlf(fmt.Sprintf(head, "a.test"), "Host: x", ""))
				select {
				case <-asked:
				case <-time.After(patience):
					t.Fatal("nobody asks the proxy")
				}
				end(l, c)
				l.hasAlone(strings.Replace(want, "error", "error dial-failure", 1))
			})
		}
	}
}

// What is cut while its allow is written ends after that, in the log as well.
func TestCutWhileAllowed(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	var l *lab
	writing, written := make(chan struct{}), make(chan struct{})
	l = startLab(t, service(o.Addr)+"+tcp", nil, func(c *Config) {
		c.Log = NewLog(writer(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte(`"event":"allow"`)) {
				close(writing)
				<-written
			}
			return l.log.Write(p)
		}), "run-1")
	})
	c := l.dial()
	c.send(crlf("CONNECT "+service(o.Addr)+" HTTP/1.1", "Host: x", ""))
	<-writing
	cut := make(chan int)
	go func() { cut <- l.gate.SetPolicy(l.policy("other.test")) }()
	l.until(func() bool { return l.gate.policy.Load().Decide(policy.Target{Host: "other.test", Port: 443}).Allow }, "the rules stay")
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := io.Copy(io.Discard, c.r); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is cut before its allow is written: %v", err)
	}
	close(written)
	if n := <-cut; n != 1 {
		t.Errorf("%d were cut", n)
	}
	l.waitLog(event("close"))
	text := l.log.String()
	allow, end := strings.Index(text, `"event":"allow"`), strings.Index(text, `"event":"close"`)
	if allow < 0 || end < allow {
		t.Errorf("the log is\n%s", text)
	}
}

// hasAlone waits until nothing is under way. One line is to tell of all that was.
func (l *lab) hasAlone(want string) {
	l.t.Helper()
	l.noFlows()
	if got := l.endings(); !slices.Equal(got, []string{want}) {
		l.t.Errorf("the log has %q, want %q", got, want)
	}
}
