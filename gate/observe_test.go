package gate

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/metrics"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// scrape returns the samples of the gate's own metrics by name and labels.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		var value float64
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "aisb_") {
			if _, err := fmt.Sscan(number, &value); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			out[strings.TrimPrefix(name, "aisb_gate_")] = value
		}
	}
	return out
}

// What the log says, the metrics count: by event and reason, bytes while they
// flow, and no host is named.
func TestMetrics(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	m := metrics.New("v1")
	l := startLab(t, service(o.Addr)+"+tcp "+service(web.Addr)+" known.test gone.test", fakes.Zone{
		"known.test": {Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	}, func(c *Config) { c.Metrics = m })
	c := l.connect(service(o.Addr))
	c.send("hello")
	if _, err := io.ReadFull(c.r, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, target := range []string{"evil.test:443", "known.test:443", "gone.test:443"} {
			d := l.dial()
			d.send("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
			d.rest()
			d.Close()
		}
	}
	resp, err := l.client().Get("http://" + service(web.Addr) + "/bytes/1000")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["method"] == "GET" })
	want := map[string]float64{
		"tunnels": 1, "rules": 4, "dns_cache_entries": 2, "dns_cache_hits_total": 2,
		`bytes_total{direction="up"}`:                                     5,
		`bytes_total{direction="down"}`:                                   1005,
		`decisions_total{event="allow",reason="host-service"}`:            2,
		`decisions_total{event="deny",reason="not-listed"}`:               2,
		`decisions_total{event="deny",reason="special-address"}`:          2,
		`decisions_total{event="error",reason="nxdomain"}`:                2,
		`decisions_total{event="deny",reason="sni-mismatch"}`:             0,
		`decisions_total{event="close",reason=""}`:                        1,
		`dial_seconds_count{result="ok"}`:                                 2,
		`dial_seconds_count{result="failure"}`:                            0,
		`dns_seconds_count{result="ok"}`:                                  1,
		`dns_seconds_count{result="nxdomain"}`:                            1,
		`decisions_total{event="foreign-client",reason="foreign-client"}`: 0,
	}
	// Bytes are counted when they have gone on, which those may see first who get them.
	var got map[string]float64
	l.until(func() bool {
		got = scrape(t, m)
		return got[`bytes_total{direction="up"}`] >= 5 && got[`bytes_total{direction="down"}`] >= 1005
	}, "bytes that have arrived are not counted")
	for name, value := range want {
		if v, found := got[name]; !found || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, found, value)
		}
	}
	if v := got["aisb_build_info{version=\"v1\"}"]; v != 1 {
		t.Errorf("no build info in %v", got)
	}
	for name := range got {
		if regexp.MustCompile(`\.test|containers|127\.0`).MatchString(name) {
			t.Errorf("%s names a host", name)
		}
	}
	c.CloseWrite()
	c.rest()
	l.until(func() bool { return scrape(t, m)["tunnels"] == 0 }, "the tunnel is still counted")
}
