package gate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/aisb-dev/aisb/gate/policy"
)

// silent is goproxy's logger: what it has to say are dial errors with
// addresses in them, and our log has its own lines.
type silent struct{}

// Printf implements goproxy.Logger.
func (silent) Printf(string, ...any) {}

// newEngine makes the goproxy that serves both methods. Each of its defaults
// that is not wanted is set here, with the reason.
func newEngine(g *Gate) *goproxy.ProxyHttpServer {
	p := goproxy.NewProxyHttpServer()
	p.Logger = silent{}
	p.Verbose = false
	p.Tr = g.transport          // the default skips TLS verification and reads the environment's proxies
	p.ConnectDial = nil         // the default dials through HTTPS_PROXY
	p.KeepAcceptEncoding = true // the default removes it, and bodies change on the way
	p.KeepHeader = true         // our own stripping knows the fields that Connection names
	p.KeepDestinationHeaders = false
	p.AllowHTTP2 = false // nothing here ends TLS or speaks h2
	p.PreventCanonicalization = false
	// The default tells strangers what this is with status 500. Nothing gets
	// here: the head is refused before when its target is no absolute URL.
	p.NonproxyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not a proxy request", http.StatusBadRequest)
	})
	// The default for a CONNECT that no handler judges is to accept it.
	p.OnRequest().HandleConnectFunc(g.handleConnect)
	// The default dials whatever the request says, and a missing port is 80. It
	// is for tunnels that goproxy relays itself, of which there are none.
	p.ConnectDialWithReq = g.dialConnect
	p.OnRequest().DoFunc(g.handleRequest)
	p.OnResponse().DoFunc(g.handleResponse)
	return p
}

// newTransport makes the client side of plain HTTP.
func newTransport(g *Gate) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // never the environment's
		DialContext:            g.dialRequest,
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return nil, errUndecided },
		Protocols:              protocols,
		DisableCompression:     true, // the client's own Accept-Encoding decides
		MaxIdleConnsPerHost:    64,   // with fewer, many clients of one host would dial anew all the time
		MaxIdleConns:           256,
		IdleConnTimeout:        time.Minute,
		ExpectContinueTimeout:  0, // who reads the body waits, see countedBody.ask
		MaxResponseHeaderBytes: 256 << 10,
		ResponseHeaderTimeout:  0, // models think for long
	}
}

// handleConnect decides a CONNECT.
func (g *Gate) handleConnect(host string, ctx *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
	x := exchangeOf(ctx.Req.Context())
	reject := &goproxy.ConnectAction{Action: goproxy.ConnectReject}
	if x == nil {
		return reject, host
	}
	if isReserved(x.target.Host) {
		x.refusal = refuse(x.method, x.target, policy.Decision{Reason: policy.ReservedName})
		x.refusal.why, x.refusal.allow = "the gate's own names are reached by plain HTTP", ""
	} else {
		x.decision, x.refusal = g.decide(ctx.Req.Context(), x.method, x.target)
	}
	if x.refusal != nil {
		x.refusal = x.joining.why(x.refusal)
		g.logRefusal(x, x.refusal)
		x.joining.end()
		ctx.Resp = x.refusal.response(ctx.Req, g.command)
		return reject, host
	}
	return &goproxy.ConnectAction{Action: goproxy.ConnectHijack, Hijack: g.tunnel}, host
}

// dialConnect is how goproxy would connect a tunnel by itself.
func (g *Gate) dialConnect(*http.Request, string, string) (net.Conn, error) { return nil, errUndecided }

// tunnel takes a CONNECT over that was allowed, connects it and serves it. The
// address that goproxy names is not used: the decision has those that were judged.
func (g *Gate) tunnel(req *http.Request, _ net.Conn, _ *goproxy.ProxyCtx) {
	x := exchangeOf(req.Context())
	conn, to, err := g.dial(req.Context(), x.decision)
	if err != nil {
		x.refusal = x.joining.why(dialFailure(x, err))
		g.logRefusal(x, x.refusal)
		x.joining.end() // before the client is left time to read
		_ = x.refusal.write(x.client, x.method, g.command)
		x.client.Close()
		return
	}
	if !g.idle.begin(&g.flows) {
		keepAlive(conn) // which is set when a tunnel is parked, otherwise
	}
	t := newTunnel(x, conn, to)
	x.joining.become(t)
	g.recheck(t, x.decision)
	// Whether the client got it shows when its first bytes are read.
	_, _ = io.WriteString(x.client.stream, "HTTP/1.1 200 Connection established\r\n\r\n")
	if x.stood == nil {
		go t.run() // net/http waits for its handler
		return
	}
	x.stood()
	t.run()
}

// dialFailure is the answer where no connection was made. Want of descriptors is
// the gate's own, and passes: the host is not to blame.
func dialFailure(x *exchange, err error) *refusal {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) {
		return exhausted(x.method, x.target, x.decision.Decision)
	}
	status := http.StatusBadGateway
	if isTimeout(err) {
		status = http.StatusGatewayTimeout
	}
	return failure(x.method, x.target, x.decision.Decision, policy.DialFailure, status)
}

// exhausted is the answer where the gate has not what it takes.
func exhausted(method string, t policy.Target, d policy.Decision) *refusal {
	r := failure(method, t, d, policy.Limit, http.StatusServiceUnavailable)
	r.why = "the gate is out of resources"
	return r
}

// connectWriter is the ResponseWriter of a CONNECT that net/http never saw.
// goproxy takes the connection over at once.
type connectWriter struct {
	x      *exchange
	header http.Header
}

// Header implements http.ResponseWriter.
func (w *connectWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *connectWriter) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (w *connectWriter) Write([]byte) (int, error) {
	return 0, errors.New("a CONNECT is answered on the raw connection")
}

// Hijack implements http.Hijacker. The reader is nil: what came after the head
// is in the clientEnd.
func (w *connectWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.x.client, &bufio.ReadWriter{}, nil
}
