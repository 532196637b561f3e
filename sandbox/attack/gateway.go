//go:build linux

package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// gateOf is the session's gate, as the proxy variables name it: on pasta's
// mapped address or, with an inner listener, on the sandbox's own loopback.
func gateOf(getenv func(string) string) string {
	for _, name := range []string{"AISB_GATE", "HTTP_PROXY", "http_proxy"} {
		if u, err := url.Parse(getenv(name)); err == nil && u.Host != "" {
			return u.Host
		}
	}
	return ""
}

// answered is what a gate said.
type answered struct {
	status int
	reason string // X-Aisb-Reason, or the status line's
	body   string
}

func (a answered) String() string { return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, a.reason)) }

// gateDial connects to the gate.
func gateDial(ctx context.Context, p Plan) (net.Conn, error) {
	if p.Gate == "" {
		return nil, errors.New("this session has no gate")
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", p.Gate)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(1500 * time.Millisecond))
	return conn, nil
}

// gateAsk writes bytes to the gate and reads one answer.
func gateAsk(ctx context.Context, p Plan, raw string) (answered, error) {
	conn, err := gateDial(ctx, p)
	if err != nil {
		return answered{}, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, raw); err != nil {
		return answered{}, err
	}
	return readAnswer(bufio.NewReader(conn))
}

func readAnswer(r *bufio.Reader) (answered, error) {
	head := textproto.NewReader(r)
	line, err := head.ReadLine()
	if err != nil {
		return answered{}, err
	}
	var a answered
	f := strings.SplitN(line, " ", 3)
	if len(f) < 2 {
		return answered{}, fmt.Errorf("not an answer: %q", line)
	}
	if a.status, err = strconv.Atoi(f[1]); err != nil {
		return answered{}, fmt.Errorf("not an answer: %q", line)
	}
	fields, err := head.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return answered{}, err
	}
	if a.reason = fields.Get("X-Aisb-Reason"); a.reason == "" && len(f) == 3 {
		a.reason = f[2]
	}
	if n, err := strconv.Atoi(fields.Get("Content-Length")); err == nil && n > 0 && n < 1<<16 {
		body := make([]byte, n)
		n, _ := io.ReadFull(r, body)
		a.body = string(body[:n])
	}
	return a, nil
}

// refuses judges what a gate answered to what it must refuse.
func refuses(a answered, err error) Finding {
	switch {
	case gone(err):
		return held("closed without an answer")
	case err != nil:
		return unknown("%s", errnoName(err))
	case a.status >= 100 && a.status < 400:
		return got("answered %v", a)
	case a.reason == "dns-failure", a.reason == "dial-failure", a.reason == "nxdomain", a.reason == "upstream-failure":
		return got("answered %v: it tried", a)
	case a.status >= 500 && a.status != 501 && a.status != 505:
		return unknown("answered %v", a)
	}
	return held("%v", a)
}

// gone reports whether a peer has ended a connection.
func gone(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE, unix.ENOTCONN} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// asks is an attack that is one request.
func asks(raw func(Plan) string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		if p.Gate == "" {
			return unknown("this session has no gate")
		}
		return refuses(gateAsk(ctx, p, raw(p)))
	}
}

// get and connect write plain requests.
func get(target string) string {
	host := target
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		host = u.Host
	}
	return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
}

func connect(target string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
}

func unlisted(scheme string) func(Plan) string {
	return func(p Plan) string {
		name := token(p.ID) + ".example.com"
		if scheme == "" {
			return connect(name + ":443")
		}
		return get(scheme + "://" + name + "/")
	}
}

// toLoopback asks for the canary on the host's loopback by a spelling of its
// address.
func toLoopback(host string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		at := fmt.Sprintf("%s:%d", host, p.LoopPort)
		return worst([]Finding{
			asks(func(Plan) string { return connect(at) })(ctx, p),
			asks(func(p Plan) string { return get("http://" + at + "/" + token(p.ID)) })(ctx, p),
		})
	}
}

// throughGate are attacks that ask the gate for what it must not give: a name or
// a port that isn't listed (T6), a service of the host's (T10), another's gate
// (T17).
func throughGate() []Attack {
	all := []Attack{
		{ID: "get-unlisted", Try: "GET of an unlisted name", Run: asks(unlisted("http"))},
		{ID: "get-https-unlisted", Try: "GET https:// of an unlisted name", Run: asks(unlisted("https"))},
		{ID: "connect-unlisted", Try: "CONNECT to an unlisted name", Run: asks(unlisted(""))},
		{ID: "get-ftp", Try: "GET ftp://", Run: asks(unlisted("ftp"))},
		{ID: "connect-port-not-listed", Try: "the listed name at another port", Run: asks(func(p Plan) string { return connect(allowedAt(p, p.LoopPort)) })},
		{ID: "get-port-not-listed", Try: "the same by GET", Run: asks(func(p Plan) string { return get("http://" + allowedAt(p, p.LoopPort) + "/" + token(p.ID)) })},
		{ID: "connect-public-ip", Try: "a public address by CONNECT", Run: asks(func(Plan) string { return connect(public4 + ":443") })},
		{ID: "connect-public-ip6", Try: "a public IPv6 address by CONNECT", Run: asks(func(Plan) string { return connect("[" + public6 + "]:443") })},
		{ID: "connect-private", Try: "a private address by CONNECT", Run: asks(func(Plan) string { return connect("192.168.0.1:443") })},
		{ID: "get-metadata", Try: "the cloud's metadata by GET", Run: metadataByGet},
		{ID: "connect-metadata-name", Try: "the cloud's metadata by name", Run: asks(func(Plan) string { return connect("metadata.google.internal:80") })},
		{ID: "connect-no-port", Try: "CONNECT without a port", Run: asks(func(p Plan) string { return connect(token(p.ID) + ".example.com") })},
		{ID: "connect-path", Try: "CONNECT to a path", Run: asks(func(Plan) string { return "CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n" })},
		{ID: "connect-userinfo", Try: "the listed name as user of an unlisted one", Run: asks(func(p Plan) string { return connect(p.Allowed + "@" + token(p.ID) + ".example.com:443") })},
		{ID: "get-userinfo", Try: "the same by GET", Run: asks(func(p Plan) string { return get("http://" + p.Allowed + "@" + token(p.ID) + ".example.com/") })},
		{ID: "connect-suffix", Try: "a name that ends in the listed one", Run: asks(func(p Plan) string { return connect(token(p.ID) + p.Allowed) })},
		{ID: "connect-prefix", Try: "a name that begins with the listed one", Run: asks(func(p Plan) string {
			host, port, _ := net.SplitHostPort(p.Allowed)
			return connect(host + "." + token(p.ID) + ".example.com:" + port)
		})},
		{ID: "connect-nul", Try: "a NUL after the listed name", Run: asks(func(p Plan) string {
			return connect("host.containers.internal\x00." + token(p.ID) + ".example.com:443")
		})},
		{ID: "connect-percent", Try: "percent escapes in the name", Run: asks(func(Plan) string { return connect("%6cocalhost:443") })},
		{ID: "connect-unicode", Try: "digits of other scripts: 127.0.0.¹", Run: asks(func(p Plan) string { return connect(fmt.Sprintf("127.0.0.¹:%d", p.LoopPort)) })},
		{ID: "connect-control", Try: "a tunnel to the gate's own names", Run: asks(func(Plan) string { return connect("control.aisb.invalid:80") })},
		{ID: "origin-form", Try: "a request without a host in its target", Run: asks(func(p Plan) string {
			return "GET / HTTP/1.1\r\nHost: " + token(p.ID) + ".example.com\r\n\r\n"
		})},
		{ID: "socks5", Try: "SOCKS5 to the gate", Run: asks(func(Plan) string { return "\x05\x01\x00" })},
		{ID: "http2", Try: "HTTP/2 to the gate", Run: asks(func(Plan) string { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" })},
	}
	for i := range all {
		all[i].Row = "T6"
	}
	spellings := []struct{ id, host string }{
		{"ip", "127.0.0.1"}, {"decimal", "2130706433"}, {"hex", "0x7f000001"}, {"octal", "0177.0.0.1"}, {"short", "127.1"},
		{"zero", "0.0.0.0"}, {"ipv6", "[::1]"}, {"mapped", "[::ffff:127.0.0.1]"}, {"unspecified6", "[::]"}, {"zone", "[::1%25lo]"},
		{"name", "localhost"}, {"name-below", "x.localhost"}, {"name-dot", "localhost."}, {"other-127", "127.9.9.9"},
	}
	for _, s := range spellings {
		all = append(all, Attack{ID: "loopback-" + s.id, Row: "T10", Try: "the host's loopback through the gate as " + s.host, Run: toLoopback(s.host)})
	}
	for _, r := range rebindings {
		all = append(all, Attack{ID: r.id, Row: "T10", Try: "a listed name that resolves to " + r.what, Run: rebind(r.id)})
	}
	return append(all,
		Attack{ID: "host-addresses", Row: "T10", Try: "the host's own addresses through the gate", Run: hostByGate},
		Attack{ID: "gate-itself", Row: "T10", Try: "the gate through the gate", Run: gateItself},
		Attack{ID: "second-gate-proxied", Row: "T17", Try: "another session's gate through the gate", Run: asks(func(p Plan) string { return connect(allowedAt(p, p.Second)) })})
}

func allowedAt(p Plan, port int) string {
	host, _, _ := net.SplitHostPort(p.Allowed)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func metadataByGet(ctx context.Context, p Plan) Finding {
	var list []Finding
	for _, at := range metadata {
		list = append(list, asks(func(Plan) string { return get("http://" + at + "/latest/meta-data/") })(ctx, p))
	}
	return worst(list)
}

func hostByGate(ctx context.Context, p Plan) Finding {
	var list []Finding
	for _, at := range at(p.HostIPs, p.AnyPort) {
		list = append(list, asks(func(Plan) string { return connect(at) })(ctx, p))
	}
	return worst(list)
}

func gateItself(ctx context.Context, p Plan) Finding {
	gate, err := netip.ParseAddrPort(p.Gate)
	if err != nil {
		return unknown("this session has no gate")
	}
	port := int(gate.Port())
	var list []Finding
	for _, at := range []string{p.Gate, fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("[::1]:%d", port), allowedAt(p, port)} {
		list = append(list, asks(func(Plan) string { return connect(at) })(ctx, p))
	}
	return worst(list)
}

// rebindings are names that the session lists, and that the canary's name
// server answers with addresses no name may lead to.
var rebindings = []struct {
	id, what string
	addrs    []string
}{
	{"rebind-loopback", "loopback", []string{"127.0.0.1"}},
	{"rebind-metadata", "the cloud's metadata", []string{"169.254.169.254"}},
	{"rebind-private", "a private address", []string{"10.0.0.1"}},
	{"rebind-unspecified", "0.0.0.0", []string{"0.0.0.0"}},
	{"rebind-mixed", "a public address and loopback", []string{"203.0.113.1", "127.0.0.1"}},
	{"rebind-loopback6", "::1", []string{"::1"}},
	{"rebind-mapped", "loopback, mapped", []string{"::ffff:127.0.0.1"}},
	{"rebind-translated", "loopback by NAT64", []string{"64:ff9b::7f00:1"}},
}

// rebindName is a name under a domain that is reserved for tests (RFC 6761).
func rebindName(id string) string { return token(id) + ".test" }

func rebind(id string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		if p.Gate == "" {
			return unknown("this session has no gate")
		}
		a, err := gateAsk(ctx, p, get("http://"+net.JoinHostPort(rebindName(id), strconv.Itoa(p.LoopPort))+"/"+token(id)))
		if err == nil && (a.reason == "nxdomain" || a.reason == "dns-failure") {
			return unknown("answered %v: the name server was not heard", a)
		}
		return refuses(a, err)
	}
}
