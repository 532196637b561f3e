package gate

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"

	"github.com/elazarl/goproxy"

	"github.com/aisb-dev/aisb/gate/policy"
)

// checkedKey finds a request's connection in its context.
type checkedKey struct{}

// withChecked implements http.Server.ConnContext.
func withChecked(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, checkedKey{}, c)
}

// serveHTTP serves what net/http has read from a checkedConn. Method, target
// and fields are taken from the checked head, not from what net/http made of it.
func (g *Gate) serveHTTP(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(checkedKey{}).(*checkedConn)
	if conn == nil {
		panic(http.ErrAbortHandler)
	}
	defer g.containRequest(conn)
	h := conn.takeHead()
	if h == nil {
		panic(http.ErrAbortHandler)
	}
	x := g.newExchange(h, addrOf(conn))
	rw := &responseWriter{ResponseWriter: w, x: x, conn: conn}
	rw.up.all, rw.down.all = &g.moved.up, &g.moved.down
	rw.answer.room = &g.underWay
	if h.bad != nil {
		rw.refuse(malformed(h.bad))
		return
	}
	if r := g.unauthorized(h); r != nil {
		rw.refuse(r)
		return
	}
	cost := headCost(h.size, len(h.fields))
	if !g.underWay.change(0, cost) {
		rw.refuse(malformed(errCrowd))
		return
	}
	defer g.underWay.change(cost, 0)
	g.flows.add(rw)
	defer rw.finish()
	if h.method == http.MethodConnect {
		rw.connect()
		return
	}
	if h.length != 0 {
		// An origin may answer before it has the whole body. net/http would read the
		// rest away from under who sends it on, before it lets the answer out.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	u, ok := h.url(h.target.String())
	if !ok {
		rw.refuse(malformed(bad("the path can't be passed on as it is")))
		return
	}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	ctx = context.WithValue(ctx, writerKey{}, rw)
	r = r.WithContext(ctx)
	r.URL, r.Host, r.RequestURI = u, h.target.HostField(80), ""
	if h.length != 0 { // without a body it stays http.NoBody, by which the Transport knows what it may send again
		rw.body = newBody(r, rw)
		defer rw.body.leave()
		r.Body = rw.body
	}
	g.engine.ServeHTTP(rw, r)
	rw.endBroken(r.Context())
	if rw.body != nil && !rw.refused {
		rw.body.finish()
	}
}

// containRequest turns a panic into the end of this connection alone. net/http
// would recover it too, but says nothing and leaves a connection open that was
// taken over from it.
func (g *Gate) containRequest(c *checkedConn) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		g.logPanic(addrOf(c))
		c.Close()
		panic(http.ErrAbortHandler)
	}
}

// writerKey finds the responseWriter of a request in its context.
type writerKey struct{}

func writerOf(ctx context.Context) *responseWriter {
	w, _ := ctx.Value(writerKey{}).(*responseWriter)
	return w
}

// handleRequest decides a plain HTTP request and makes it ready to go out.
func (g *Gate) handleRequest(req *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
	w := writerOf(req.Context())
	if w == nil {
		return req, refusedWithoutWriter(req)
	}
	x := w.x
	if isReserved(x.target.Host) {
		return req, g.reserved(req, x)
	}
	x.decision, x.refusal = g.decide(req.Context(), x.method, x.target)
	if x.refusal == nil && !x.decision.budget.spend(int64(x.head.size)) {
		x.refusal = overBudget(x) // a path or a field can carry out as much as a body
	}
	if x.refusal != nil {
		return req, x.refusal.response(req, g.command)
	}
	stripHopByHop(req.Header)
	if x.head.websocket {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
	}
	if _, found := req.Header["User-Agent"]; !found {
		req.Header["User-Agent"] = nil // or net/http names itself
	}
	// The host of the URL is the pool's key, so a kept connection is used only
	// for the very decision that it was dialled for. Host names the target.
	req.URL.Host = x.decision.key() + ":80"
	req.Host = x.target.HostField(80)
	req.Close = false // what the client wants of its own connection
	ctx.RoundTripper = goproxy.RoundTripperFunc(g.roundTrip)
	return req, nil
}

func refusedWithoutWriter(req *http.Request) *http.Response {
	r := &refusal{reason: policy.BadRequest, status: http.StatusBadRequest, why: "the request was not checked"}
	return r.response(req, "")
}

// roundTrip sends a decided request and passes interim answers on.
func (g *Gate) roundTrip(req *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	w := writerOf(req.Context())
	trace := &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { w.connected(info.Conn) },
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			defer w.answer.restart()
			if code == http.StatusContinue {
				return nil // that one is for the body
			}
			return w.interim(code, http.Header(header))
		},
	}
	if w.body != nil {
		trace.Got100Continue = w.body.want
	}
	resp, err := g.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	w.endInterim()
	if err != nil {
		w.answer.settle(nil)
		w.err = err
		return nil, err
	}
	w.answer.settle(resp.Header)
	if resp.StatusCode < 100 { // net/http panics when it is to write such a one
		resp.Body.Close()
		w.err = errStatus
		return nil, errStatus
	}
	if resp.StatusCode == http.StatusSwitchingProtocols &&
		(!w.x.head.websocket || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") || !hasToken(strings.Join(resp.Header["Connection"], ","), "upgrade")) {
		resp.Body.Close()
		w.err = errSwitched
		return nil, errSwitched
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		// Here and not in handleResponse: there goproxy takes another body for
		// another content, and drops the length.
		stripTrailer(resp.Trailer)
		resp.Body = &answerBody{ReadCloser: resp.Body, resp: resp, w: w}
	}
	return resp, nil
}

// dialRequest connects for a plain HTTP request. The Transport may use the
// connection for another request, but only for one of the same key.
func (g *Gate) dialRequest(ctx context.Context, _, addr string) (net.Conn, error) {
	x := exchangeOf(ctx)
	if x == nil || x.decision == nil || addr != x.decision.key()+":80" {
		return nil, errUndecided
	}
	conn, to, err := g.dial(ctx, x.decision)
	if err != nil {
		return nil, err
	}
	keepAlive(conn)
	return newOriginConn(conn, to), nil
}

// handleResponse makes an answer ready for the client, and makes one when there
// is none.
func (g *Gate) handleResponse(resp *http.Response, ctx *goproxy.ProxyCtx) *http.Response {
	w := writerOf(ctx.Req.Context())
	if w == nil || w.x.refusal != nil || w.x.decision == nil {
		return resp
	}
	left := ctx.Req.Context().Err() != nil && w.conn.badFrame() == nil && w.cause.Load() == nil && !w.body.isLost()
	if resp == nil && (left || w.wasCut()) {
		if left && !w.allowed.Load() { // a name was looked up, perhaps packets were sent
			w.told = true
			g.logRefusal(w.x, w.failure())
		}
		panic(http.ErrAbortHandler) // the client has gone: nobody is to be answered
	}
	if resp == nil {
		w.x.refusal = w.failure()
		return w.x.refusal.response(ctx.Req, g.command)
	}
	stripHopByHop(resp.Header)
	stripOwn(resp.Header)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Header.Set("Connection", "Upgrade")
		resp.Header.Set("Upgrade", "websocket")
		resp.Body = newUpgraded(resp.Body, w)
		return resp
	}
	if _, found := resp.Header["Content-Type"]; !found {
		resp.Header["Content-Type"] = nil // or net/http guesses one
	}
	if w.x.head.websocket {
		resp.Header.Set("Connection", "close") // the connection is raw already
	}
	return resp
}
