package gate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// answerBody is the body of an origin's answer. goproxy passes over the error of
// one that breaks off, and net/http would end it as if it were whole.
type answerBody struct {
	io.ReadCloser
	resp  *http.Response
	w     *responseWriter
	begun bool
}

// headAfter is how long the head of an answer waits for its content, to go along
// with it.
const headAfter = 5 * time.Millisecond

// first reads the first piece of the content. The head of an event stream that has
// nothing to say yet goes ahead: its client waits for that.
func (b *answerBody) first(p []byte) (int, error) {
	var mu sync.Mutex
	came := false
	timer := time.AfterFunc(headAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !came {
			b.w.Flush()
		}
	})
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	mu.Lock()
	defer mu.Unlock()
	came = true
	return n, err
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	read := b.ReadCloser.Read
	if !b.begun {
		b.begun, read = true, b.first
	}
	n, err := read(p)
	switch {
	case errors.Is(err, io.EOF):
		stripTrailer(b.resp.Trailer) // it has more in it by now
	case err != nil:
		b.w.broken = true
	}
	return n, err
}

// endBroken ends the connection of an answer that has broken off, so that the
// client sees it too (RFC 9112, section 8).
func (w *responseWriter) endBroken(ctx context.Context) {
	if !w.broken {
		return
	}
	if reason := policy.UpstreamFailure; ctx.Err() == nil && w.conn.badFrame() == nil {
		w.cause.CompareAndSwap(nil, &reason)
	}
	if w.x.head.http10 {
		reset(w.conn.stream) // an end is all that tells its client of the end
	}
	panic(http.ErrAbortHandler)
}
