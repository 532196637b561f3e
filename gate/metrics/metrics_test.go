package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/aisb-dev/aisb/gate/policy"
)

func text(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Names, types and lines are as Prometheus wants them: its own reader takes them.
func TestLint(t *testing.T) {
	m := New("v1")
	m.Gauge("tunnels", "Tunnels.", func() float64 { return 1 })
	m.Bytes(func() float64 { return 1 }, func() float64 { return 2 })
	problems, err := promlint.New(strings.NewReader(text(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Every reason has its place, under an event at least.
func TestReasons(t *testing.T) {
	m := New("v1")
	for _, reason := range policy.Reasons() {
		for _, event := range events {
			m.Decision(event, reason)
		}
		if got := text(t, m); !strings.Contains(got, `reason="`+string(reason)+`"} 1`) {
			t.Errorf("%s is not counted", reason)
		}
	}
	m.Decision("nonsense", "nonsense") // no panic, no new label
	if strings.Contains(text(t, m), "nonsense") {
		t.Error("labels are not a closed set")
	}
}

// Times are in the bucket of the first bound that is not below them, and in all
// after it.
func TestHistogram(t *testing.T) {
	m := New("v1")
	for _, took := range []time.Duration{time.Millisecond, time.Millisecond + 1, 3 * time.Second, time.Minute} {
		m.Dialled(took, true)
	}
	got := text(t, m)
	for le, want := range map[string]string{"0.001": "1", "0.0025": "2", "2.5": "2", "5": "3", "10": "3", "+Inf": "4"} {
		if line := `aisb_gate_dial_seconds_bucket{result="ok",le="` + le + `"} ` + want + "\n"; !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	for _, line := range []string{`dial_seconds_count{result="ok"} 4`, `dial_seconds_sum{result="ok"} 63.002`, `dial_seconds_count{result="failure"} 0`} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

// What the process says of itself is true as far as it can be told here.
func TestProcess(t *testing.T) {
	got := text(t, New("a\"b\\c\nd"))
	for _, zero := range []string{"process_open_fds 0", "process_max_fds 0", "process_resident_memory_bytes 0", "process_cpu_seconds_total 0\n", "go_goroutines 0"} {
		if strings.Contains(got, zero) {
			t.Errorf("%q", zero)
		}
	}
	if want := `aisb_build_info{version="a\"b\\c\nd"} 1`; !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}

// A gate without metrics calls the same methods.
func TestNil(t *testing.T) {
	defer func() {
		if bad := recover(); bad != nil {
			t.Errorf("panic: %v", bad)
		}
	}()
	var m *Metrics
	m.Gauge("x", "y", nil)
	m.Bytes(nil, nil)
	m.Decision("allow", policy.Listed)
	m.Dialled(time.Second, true)
	m.Known()
	m.LookedUp(time.Second, "")
	m.Reloaded(true)
}

// There is one page, and it is not written to.
func TestHandler(t *testing.T) {
	for request, want := range map[string]int{"GET /metrics": 200, "GET /": 404, "GET /metrics/x": 404, "POST /metrics": 405} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		New("v1").Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		}
	}
}
