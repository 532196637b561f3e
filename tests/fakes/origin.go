package fakes

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Origin is a web server.
type Origin struct {
	Log  *Log
	Addr netip.AddrPort

	srv  *http.Server
	done sync.WaitGroup
}

// StartHTTP serves plain HTTP on addr. A nil handler is Site, a nil log makes
// one.
func StartHTTP(addr string, h http.Handler, log *Log) (*Origin, error) {
	return startOrigin("http", addr, nil, h, log)
}

// StartHTTPS serves HTTP/1.1 and HTTP/2 over TLS on addr, under any name, with
// certificates of ca.
func StartHTTPS(addr string, ca *CA, h http.Handler, log *Log) (*Origin, error) {
	return startOrigin("https", addr, ca.Config(), h, log)
}

func startOrigin(kind, addr string, conf *tls.Config, h http.Handler, l *Log) (*Origin, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start %s origin: %w", kind, err)
	}
	if h == nil {
		h = Site()
	}
	if l == nil {
		l = &Log{}
	}
	o := &Origin{Log: l, Addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	o.srv = &http.Server{
		Handler:   o.logged(kind, h),
		TLSConfig: conf,
		// Handshakes that the tests break on purpose are no news.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	o.done.Go(func() {
		if conf != nil {
			o.srv.ServeTLS(ln, "", "")
			return
		}
		o.srv.Serve(ln)
	})
	return o, nil
}

// Close cuts all connections and waits for the server to end.
func (o *Origin) Close() error {
	err := o.srv.Close()
	o.done.Wait()
	return err
}

// Shutdown lets running requests end first.
func (o *Origin) Shutdown(ctx context.Context) error {
	err := o.srv.Shutdown(ctx)
	return errors.Join(err, o.Close())
}

// logged notes each request when it has been answered.
func (o *Origin) logged(kind string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := o.Log.begin()
		e := Event{Fake: kind, Began: time.Now().UTC(), Addr: o.Addr.String(), Client: r.RemoteAddr,
			Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(), Proto: r.Proto}
		if r.TLS != nil {
			e.SNI = r.TLS.ServerName
		}
		body := &countingBody{ReadCloser: r.Body}
		r.Body = body
		sw := &statusWriter{ResponseWriter: w}
		defer func() {
			e.Bytes, e.Status = body.n.Load(), sw.status
			if e.Status < 200 && e.Status != http.StatusSwitchingProtocols {
				e.Status = http.StatusOK // what net/http sends for a handler that wrote nothing
			}
			end(e)
		}()
		h.ServeHTTP(sw, r)
	})
}

type countingBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// statusWriter remembers the status. http.ResponseController finds the rest
// through Unwrap.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.status < 200 { // informational answers come before the real one
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status < 200 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
