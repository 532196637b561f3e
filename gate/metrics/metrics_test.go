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

// Names and types are as Prometheus wants them.
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

// A gate without metrics calls the same methods.
func TestNil(t *testing.T) {
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
