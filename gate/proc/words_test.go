package proc

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// A gate whose log can't be written says so at once, lets nothing through and goes on; its
// report counts what is missing.
func TestFullDisk(t *testing.T) {
	origin, err := fakes.StartHTTP("127.0.0.1:0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	service := fmt.Sprintf("%s:%d", policy.ServiceHost, origin.Addr.Port())
	files := listen(t, t.TempDir())
	if files.Log, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer files.Log.Close()
	p, err := Start(t.Context(), "/proc/self/exe", Config{Allow: lines(service)}, files)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-p.Warnings():
		if !strings.Contains(text, "the run's log can't be written") || !strings.HasSuffix(text, "it can: no space left on device") {
			t.Errorf("it warns: %q", text)
		}
	case <-time.After(30 * time.Second):
		t.Error("it says nothing")
	}
	if err := p.Pasta(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	resp, err := proxied(files).Get("http://" + service)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if reason := resp.Header.Get("X-Aisb-Reason"); resp.StatusCode != 503 || reason != "limit" {
		t.Errorf("a request is answered %s, %q", resp.Status, reason)
	}
	report, err := p.Stop(t.Context())
	if err != nil || report.Unlogged != 3 { // listening, error, exit
		t.Errorf("%+v, %v", report, err)
	}
	if n := len(origin.Log.Events()); n != 0 {
		t.Errorf("the origin heard %d requests", n)
	}
}

// Warnings are told from what else a gate writes, and wait for nobody.
func TestWarnings(t *testing.T) {
	o := newOpening()
	for i := range 10 {
		fmt.Fprintf(o, "panic: x\n%sno. %d\nnot %sat the beginning\n", warning, i, warning)
	}
	for i := range cap(o.warnings) {
		if got, want := <-o.warnings, fmt.Sprintf("no. %d", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if len(o.warnings) > 0 || !strings.HasPrefix(o.String(), "panic: x\n") {
		t.Errorf("%d more; %q", len(o.warnings), o.String())
	}
}
