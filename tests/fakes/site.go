package fakes

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Site is the handler that answers in every way a client may need:
//
//	/            "origin METHOD HOST PATH" and a newline
//	/bytes/N     N bytes of a fixed pattern (Pattern)
//	/upload      reads the body, answers {"bytes":N,"sha256":"..."}
//	/echo        the body as it comes, unbuffered
//	/headers     the request's head as JSON
//	/status/N    an empty answer with status N
//	/stream/N    N server-sent events, ?every=10ms apart
//	/gzip        a gzip body that must arrive as it is
//	/trailers    a body followed by the trailer X-Sum
//	/early       a 103 before the answer
//	/hang        nothing, until the client leaves
//	/switch      101 to the protocol asked for in Upgrade, then an echo
func Site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", serveName)
	mux.HandleFunc("/bytes/{n}", serveBytes)
	mux.HandleFunc("/upload", serveUpload)
	mux.HandleFunc("/echo", serveEcho)
	mux.HandleFunc("/headers", serveHeaders)
	mux.HandleFunc("/status/{n}", serveStatus)
	mux.HandleFunc("/stream/{n}", serveStream)
	mux.HandleFunc("/gzip", serveGzip)
	mux.HandleFunc("/trailers", serveTrailers)
	mux.HandleFunc("/early", serveEarly)
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/switch", serveSwitch)
	return mux
}

// Pattern reads as n bytes that differ from place to place, so that a relay
// which swaps or repeats blocks is found out.
func Pattern(n int64) io.Reader { return io.LimitReader(&pattern{}, n) }

type pattern struct{ at uint64 }

func (p *pattern) Read(buf []byte) (int, error) {
	for i := range buf {
		v := p.at * 0x9e3779b97f4a7c15
		buf[i] = byte(v >> 56)
		p.at++
	}
	return len(buf), nil
}

func serveName(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "origin %s %s %s\n", r.Method, r.Host, r.URL.Path)
}

func serveBytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 0 {
		http.Error(w, "not a length", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	if r.Method != http.MethodHead {
		io.Copy(w, Pattern(n))
	}
}

func serveUpload(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, map[string]any{"bytes": n, "sha256": hex.EncodeToString(sum.Sum(nil))})
}

func serveEcho(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	rc.EnableFullDuplex() // an error means HTTP/2, which always is
	rc.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			w.Write(buf[:n])
			rc.Flush()
		}
		if err != nil {
			return
		}
	}
}

func serveHeaders(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, map[string]any{
		"method": r.Method, "target": r.RequestURI, "proto": r.Proto, "host": r.Host,
		"header": r.Header, "transfer": r.TransferEncoding, "length": r.ContentLength,
	})
}

func serveStatus(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 200 || n > 599 {
		n = http.StatusBadRequest
	}
	w.WriteHeader(n)
}

func serveStream(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil {
		http.Error(w, "not a number", http.StatusBadRequest)
		return
	}
	every, err := time.ParseDuration(r.URL.Query().Get("every"))
	if err != nil {
		every = 10 * time.Millisecond
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range n {
		fmt.Fprintf(w, "data: {\"n\":%d,\"sent\":%q}\n\n", i, time.Now().UTC().Format(time.RFC3339Nano))
		rc.Flush()
		if i == n-1 {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func serveGzip(w http.ResponseWriter, _ *http.Request) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	io.Copy(z, Pattern(4096))
	z.Close()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.Write(buf.Bytes())
}

func serveTrailers(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Trailer", "X-Sum")
	io.WriteString(w, "body\n")
	w.Header().Set("X-Sum", "42")
}

func serveEarly(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	io.WriteString(w, "late\n")
}

func serveSwitch(w http.ResponseWriter, r *http.Request) {
	proto := r.Header.Get("Upgrade")
	if proto == "" {
		http.Error(w, "no upgrade asked for", http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", proto)
	io.Copy(conn, rw)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
