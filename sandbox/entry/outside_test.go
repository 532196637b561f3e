package entry

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// outside is the network outside of a box: the gate's side.
type outside struct {
	gate, canary netip.AddrPort
	key          []byte

	mu     sync.Mutex
	lie    string // how the gate misbehaves
	leaked int    // connections at the canary
}

func (o *outside) set(lie string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lie = lie
}

// came is how many connections the canary has seen.
func (o *outside) came() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leaked
}

// newOutside makes a network namespace, connected to that of process pid by a
// pair of interfaces, with default routes of both families through it.
func newOutside(t *testing.T, pid int) *outside {
	t.Helper()
	o := &outside{key: []byte("0123456789abcdef0123456789abcdef")}
	done, ready := make(chan struct{}), make(chan error)
	go fakes.OnThread(func() {
		gate, canary, err := connect(pid)
		if err == nil {
			o.gate, o.canary = gate.Addr().(*net.TCPAddr).AddrPort(), canary.Addr().(*net.TCPAddr).AddrPort()
			go o.serve(gate)
			go o.watch(canary)
		}
		ready <- err
		<-done
		if err == nil {
			gate.Close()
			canary.Close()
		}
	})
	if err := <-ready; err != nil {
		close(done)
		t.Fatal(err)
	}
	t.Cleanup(func() { close(done) })
	return o
}

func connect(pid int) (gate, canary net.Listener, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, nil, err
	}
	for _, c := range []struct{ command, input string }{
		{"ip -batch -", fmt.Sprintf(`link set lo up
link add outer type veth peer name inner netns %d
addr add 169.254.1.3/24 dev outer
addr add fd77::1/64 dev outer nodad
link set outer up`, pid)},
		{fmt.Sprintf("nsenter --net=/proc/%d/ns/net ip -batch -", pid), `addr add 169.254.1.9/24 dev inner
addr add fd77::9/64 dev inner nodad
link set inner up
route add default via 169.254.1.3
route add default via inet6 fd77::1`},
	} {
		words := strings.Fields(c.command)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin = strings.NewReader(c.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w: %s", c.command, err, out)
		}
	}
	if gate, err = net.Listen("tcp4", "169.254.1.3:0"); err == nil {
		canary, err = net.Listen("tcp4", "169.254.1.3:0")
	}
	return gate, canary, err
}

// serve answers the reserved names as a gate does, or as lie says.
func (o *outside) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go o.answer(c)
	}
}

func (o *outside) answer(c net.Conn) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	o.mu.Lock()
	lie := o.lie
	o.mu.Unlock()
	key := o.key
	if lie == "wrong key" {
		key = []byte("another key of another session")
	}
	random, isProof := strings.CutSuffix(req.Host, proofDomain)
	switch {
	case lie == "silent":
		return
	case lie == "not http":
		fmt.Fprint(c, "220 hello\r\n\r\n")
	case lie == "lets through" && isProof:
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Aisb-Proof: %s\r\n\r\n", mac(key, random))
	case isProof:
		fmt.Fprintf(c, "HTTP/1.1 403 Blocked by aisb: reserved-name\r\nx-aisb-proof: %s\r\n\r\nno", mac(key, random))
	case req.URL.Path == healthPath && lie != "sick":
		fmt.Fprintf(c, "HTTP/1.1 204 No Content\r\nX-Aisb-Proof: %s\r\n\r\n", mac(key, req.Header.Get("X-Aisb-Nonce")))
	default:
		fmt.Fprint(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
	}
}

func (o *outside) watch(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
		o.mu.Lock()
		o.leaked++
		o.mu.Unlock()
	}
}

// addPort is the address with another port.
func addPort(a netip.AddrPort, n uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), a.Port()+n)
}

// ip changes the container's network.
func (o *outside) ip(t *testing.T, pid int, args ...string) {
	t.Helper()
	args = append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", pid), "ip"}, args...)
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
