package gate

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// fullable is a log on a disk that is full for as long as it is said to be.
type fullable struct {
	io.Writer
	full atomic.Bool
}

func (f *fullable) Write(p []byte) (int, error) {
	if f.full.Load() {
		return 0, unix.ENOSPC
	}
	return f.Writer.Write(p)
}

// What can't be written down is not to happen: nothing goes out while the log can't be
// written, by whatever way, and all is as it was once it can.
func TestFullLog(t *testing.T) {
	echo := tcpOrigin(t, fakes.Echo)
	var heard atomic.Int32
	web := site(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
	var log *fullable
	l := startLab(t, service(echo.Addr)+"+tcp "+service(web.Addr), nil, func(c *Config) {
		log = &fullable{Writer: c.Log.out.w}
		c.Log.out.w = log
	})
	client := l.client()
	client.Transport.(*http.Transport).DisableKeepAlives = true // or it tries again by itself
	get := func() error {
		resp, err := client.Get("http://" + service(web.Addr) + "/")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		return err
	}
	if err := get(); err != nil { // whose connection to the origin is kept
		t.Fatal(err)
	}
	l.waitLog(event("close"))
	tunnel := func() string {
		c := l.dial()
		c.send(crlf("CONNECT "+service(echo.Addr)+" HTTP/1.1", "Host: x", "") + "early")
		return c.rest()
	}
	log.full.Store(true)
	// Whose line shows that the log is full: connected, and cut.
	if text := tunnel(); !strings.Contains(text, "reset") {
		t.Errorf("a tunnel ends with %q", text)
	}
	l.noFlows()
	// Whatever comes then is connected to nothing.
	if text := tunnel(); !strings.Contains(text, "503 ") || !strings.Contains(text, "log can't be written") {
		t.Errorf("a second tunnel is answered %q", text)
	}
	if err := get(); err == nil {
		t.Error("a request is answered that the log doesn't tell of")
	}
	if n := l.gate.Report().Unlogged; n != 4 {
		t.Errorf("%d lines are missing, want 4", n)
	}
	log.full.Store(false)
	if err := get(); err != nil {
		t.Error(err)
	}
	l.noFlows()
	log.full.Store(true)
	if err := get(); err == nil { // the first of its kind
		t.Error("a request is answered that the log doesn't tell of")
	}
	l.noFlows()
	log.full.Store(false)
	if err := get(); err != nil {
		t.Error(err)
	}
	l.noFlows()
	if n := heard.Load(); n != 3 {
		t.Errorf("the origin heard %d requests, want 3", n)
	}
	l.until(func() bool { return len(echo.Log.Events()) == 1 }, "the tunnel has not ended")
	if n := echo.Log.Events()[0].Bytes; n != 0 {
		t.Errorf("%d bytes went through a tunnel", n)
	}
	want := []string{"allow", "allow", "allow", "allow", "allow", "close ", "close ", "close ", "close limit", "close limit", "error limit", "error limit"}
	if got := l.endings(); !slices.Equal(got, want) || l.gate.Report().Unlogged != 0 {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
