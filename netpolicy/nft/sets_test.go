package nft

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

const directSpec = "sets and a resolver"

// Whatever is off with a set shows, also what an element carries beside its key.
func TestVerifySeesEverySet(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		rs := render(t, specs()[directSpec])
		text := rs.String()
		swap := func(old, new string) string {
			if !strings.Contains(text, old) {
				t.Fatalf("%q is not in the ruleset", old)
			}
			return strings.Replace(text, old, new, 1)
		}
		typed := "type ipv4_addr . inet_service"
		for name, script := range map[string]string{
			"element more":           text + "add element inet aisb open4 { 198.51.100.7 . 443 }",
			"element less":           text + "delete element inet aisb open4 { 93.184.215.14 . 443 }",
			"element of a port":      text + "add element inet aisb open4 { 93.184.215.14 . 444 }",
			"element with a comment": swap("93.184.215.14 . 443", `93.184.215.14 . 443 comment "x"`),
			"emptied":                swap("elements = { 2606:2800::1 . 443 }", ""),
			"with time-outs":         swap(typed, typed+"; flags timeout"),
			"with its own time-out":  swap(typed, typed+"; timeout 1h"),
			"with intervals":         swap(typed, typed+"; flags interval"),
			"an interval in it": strings.Replace(swap(typed, typed+"; flags interval"),
				"93.184.215.14 . 443", "93.184.215.0/24 . 443", 1),
			"filled by packets": swap(typed, typed+"; flags dynamic"),
			"constant":          swap(typed, typed+"; flags constant"),
			"with counters":     swap(typed, typed+"; counter"),
			"with a size":       swap(typed, typed+"; size 4096"),
			"for little memory": swap(typed, typed+"; policy memory"),
			"a set more":        text + "add set inet aisb open5 { type ipv4_addr . inet_service; }",
			"a set in ip":       text + "table ip other {\nset open4 {\ntype ipv4_addr . inet_service\n}\n}",
			"a map":             text + "add map inet aisb m { type ipv4_addr . inet_service : verdict; }",
			"not in it":         swap("tcp dport @open4", "tcp dport != @open4"),
			"udp":               swap("daddr . tcp dport @open4", "daddr . udp dport @open4"),
			"source port":       swap("daddr . tcp dport @open4", "daddr . tcp sport @open4"),
			"source address":    swap("ip daddr . tcp dport @open4", "ip saddr . tcp dport @open4"),
		} {
			nft(t, "flush ruleset\n"+script, "-f", "-")
			if err := Verify(rs); !errors.Is(err, ErrMismatch) {
				t.Errorf("%s: got %v, want a mismatch", name, err)
			}
		}
		nft(t, "flush ruleset\n"+text, "-f", "-")
		if err := Verify(rs); err != nil {
			t.Errorf("the text itself: %v", err)
		}
	})
}

// Elements change in one step, in which every rule keeps its counter, and only on
// top of what is known.
func TestUpdate(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		spec := specs()[directSpec]
		from := render(t, spec)
		to := render(t, spec.WithPeers(ports("93.184.215.14:443", "198.51.100.7:443", "[2606:2800::2]:443")))
		if err := Apply(from); err != nil {
			t.Fatal(err)
		}
		for _, step := range [][2]netpolicy.Ruleset{{from, from}, {from, to}, {to, from}, {from, to}} {
			if err := Update(step[0], step[1]); err != nil {
				t.Fatal(err)
			}
			if err := Verify(step[1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := Update(from, to); !errors.Is(err, ErrMismatch) {
			t.Errorf("from another state: %v", err)
		}
		nft(t, "", "add", "element", "inet", "aisb", "open4", "{ 198.51.100.66 . 443 }")
		if err := Update(to, from); !errors.Is(err, ErrMismatch) {
			t.Errorf("on top of a foreign element: %v", err)
		}
		if err := Update(render(t, specs()["one gate"]), to); err == nil {
			t.Error("a change of rules passes for one of elements")
		}
	})
}

// Two writers at once: whoever is late changes nothing.
func TestUpdateOnTopOfAnother(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		spec := specs()["empty sets"]
		from, to := render(t, spec), render(t, spec.WithPeers(ports("198.51.100.7:443")))
		if err := Apply(from); err != nil {
			t.Fatal(err)
		}
		conn := dial(t)
		before, err := generation(conn)
		if err != nil {
			t.Fatal(err)
		}
		nft(t, "", "add table ip other; delete table ip other")
		batch, err := changes(from, to)
		if err != nil {
			t.Fatal(err)
		}
		if err := raced(commit(conn, before, batch)); !errors.Is(err, ErrRaced) || !errors.Is(err, unix.ERESTART) {
			t.Errorf("got %v", err)
		}
		if err := Verify(from); err != nil {
			t.Errorf("a late transaction was taken: %v", err)
		}
		if _, err := update(conn, from, to); err != nil { // the connection is still good
			t.Error(err)
		}
	})
}

// Most sets that can be are installed, read back and changed.
func TestLargestSets(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		peers := make([]netip.AddrPort, netpolicy.MaxPeers)
		addr := netip.MustParseAddr("2606:2800::1")
		for i := range peers {
			peers[i] = netip.AddrPortFrom(addr, 443)
			addr = addr.Next()
		}
		spec := netpolicy.Spec{Direct: &netpolicy.Direct{Peers: peers}}
		rs, none := render(t, spec), render(t, spec.WithPeers(nil))
		if err := errors.Join(Apply(rs), Verify(rs), Update(rs, none), Update(none, rs)); err != nil {
			t.Error(err)
		}
	})
}

// Packets: an element opens its address and port for TCP, and nothing else; taken
// out, it ends what is under way.
func TestSetsAndTraffic(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		ip(t, "link", "set", "lo", "up")
		spec := netpolicy.Spec{Direct: &netpolicy.Direct{Peers: ports("93.184.215.14:443")}}
		rs := render(t, spec)
		ip(t, "link", "add", "one", "type", "veth", "peer", "name", "two")
		ip(t, "addr", "add", "192.0.2.1/24", "dev", "one")
		ip(t, "link", "set", "one", "up")
		ip(t, "link", "set", "two", "up")
		ip(t, "route", "add", "default", "via", "192.0.2.2")
		if err := Apply(rs); err != nil {
			t.Fatal(err)
		}
		// Nobody is there: what leaves gets no answer, what is refused a reset at once.
		refused := func(to string, within time.Duration) (bool, error) {
			c, err := net.DialTimeout("tcp", to, within)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED), err
		}
		const leaves, comesBack = 200 * time.Millisecond, 20 * time.Second
		for to, within := range map[string]time.Duration{
			"93.184.215.14:443": leaves, "93.184.215.14:80": comesBack, "93.184.215.15:443": comesBack, "[2606:2800::1]:443": leaves,
		} {
			if got, err := refused(to, within); got != (within == comesBack) {
				t.Errorf("%s: refused is %v: %v", to, got, err)
			}
		}
		after, err := Counters(rs)
		if err != nil {
			t.Fatal(err)
		}
		if after["open out"].Packets == 0 || after["other tcp out"].Packets < 2 {
			t.Errorf("counted %+v", after)
		}
		none := render(t, spec.WithPeers(nil))
		if err := Update(rs, none); err != nil {
			t.Fatal(err)
		}
		if shut, err := refused("93.184.215.14:443", comesBack); !shut {
			t.Errorf("an element that was taken out is open: %v", err)
		}
		if kept, err := Counters(none); err != nil || kept["open out"] != after["open out"] {
			t.Errorf("counters after a change of elements: %+v, %v; want %+v", kept["open out"], err, after["open out"])
		}
	})
}

// The host's user changes the sandbox's sets by the socket that was handed out, and
// sees a foreign change between two of its own.
func TestWatcherUpdates(t *testing.T) {
	s := startFarWith(t, "direct")
	w, err := Watch(s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	spec := farSpec("direct")
	from, to := render(t, spec), render(t, spec.WithPeers(ports("198.51.100.7:443", "[2606:2800::2]:443")))
	at, err := w.Update(from, to)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := w.Generation(); err != nil || now != at {
		t.Errorf("generation %d after the change to %d, %v", now, at, err)
	}
	if _, err := w.Counters(to); err != nil {
		t.Error(err)
	}
	s.nft("add element inet aisb open4 { 198.51.100.66 . 443 }")
	if _, err := w.Update(to, from); !errors.Is(err, ErrMismatch) {
		t.Errorf("a foreign element: %v", err)
	}
	s.nft("delete element inet aisb open4 { 198.51.100.66 . 443 }")
	if back, err := w.Update(to, from); err != nil || back == at {
		t.Errorf("generation %d, %v", back, err)
	}
	// This process's own namespace is another one, and has none of it.
	if err := Verify(from); err == nil {
		t.Error("the fence is in this namespace")
	}
}

// A program of the sandbox that has no rights any more can't, by the same socket.
func TestSocketWithoutRights(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		spec := specs()["empty sets"]
		from, to := render(t, spec), render(t, spec.WithPeers(ports("198.51.100.7:443")))
		if err := Apply(from); err != nil {
			t.Fatal(err)
		}
		socket, err := Socket()
		if err != nil {
			t.Fatal(err)
		}
		w, err := Watch(socket)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := changes(from, to)
		if err != nil {
			t.Fatal(err)
		}
		at, err := w.Generation()
		if err != nil {
			t.Fatal(err)
		}
		dropAll(t)
		if _, err := w.Generation(); !errors.Is(err, unix.EPERM) {
			t.Errorf("reads: %v", err)
		}
		if err := commit(w.conn, at, batch); !errors.Is(err, unix.EPERM) {
			t.Errorf("writes: %v", err)
		}
	})
}

func TestWithout(t *testing.T) {
	got := without(ports("1.1.1.1:1", "1.1.1.1:2", "2.2.2.2:1"), ports("1.1.1.1:2", "3.3.3.3:3"))
	if !slices.Equal(got, ports("1.1.1.1:1", "2.2.2.2:1")) {
		t.Errorf("got %v", got)
	}
}
