package gate

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// The log has the keys, events and reasons of its documentation and no others,
// each of its type, and nothing of paths or header fields.
func TestLogSchema(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	l := startLab(t, service(o.Addr)+"+tcp "+service(web.Addr), nil, nil)
	c := l.connect(service(o.Addr))
	c.CloseWrite()
	c.rest()
	req, _ := http.NewRequest(http.MethodGet, "http://"+service(web.Addr)+"/SECRETPATH?q=SECRETQUERY", nil)
	req.Header.Set("X-Secret", "SECRETFIELD")
	resp, err := l.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, bad := range []string{"CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://\x1b[31m/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := l.dial()
		c.send(bad)
		c.rest()
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["method"] == "GET" })
	l.gate.log.Write(Record{Event: EventListening, Addr: ap("127.0.0.1:3128"), Confined: "seccomp"})
	if s := l.log.String(); strings.Contains(s, "SECRET") || strings.Contains(s, "\x1b") {
		t.Errorf("the log says too much: %s", s)
	}
	types := map[string]string{
		"ts": "string", "event": "string", "id": "number", "run": "string", "method": "string", "host": "string",
		"port": "number", "reason": "string", "rule": "string", "addr": "string", "sni": "string", "alpn": "string",
		"up": "number", "down": "number", "ms": "number", "client": "string", "confined": "string",
	}
	for line := range strings.Lines(l.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for key, value := range m {
			kind := "string"
			if _, ok := value.(float64); ok {
				kind = "number"
			}
			if types[key] != kind || value == "" {
				t.Errorf("%s: key %s is a %s: %v", line, key, kind, value)
			}
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", m["ts"].(string)); err != nil {
			t.Errorf("ts: %v", err)
		}
		if r, found := m["reason"]; found && !slices.Contains(policy.Reasons(), policy.Reason(r.(string))) {
			t.Errorf("reason %v is not in the closed set", r)
		}
		if !slices.Contains(Events(), Event(m["event"].(string))) {
			t.Errorf("event %v is not in the closed set", m["event"])
		}
	}
}

// docs/gate-log.md names each event, key and reason.
func TestLogIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/gate-log.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range policy.Reasons() {
		if !strings.Contains(string(text), "| `"+string(r)+"` |") {
			t.Errorf("reason %s is not documented", r)
		}
	}
	for _, e := range Events() {
		if !strings.Contains(string(text), "| `"+string(e)+"` |") {
			t.Errorf("event %s is not documented", e)
		}
	}
	for key := range strings.FieldsSeq("ts event id run method host port reason rule addr sni alpn up down ms client confined") {
		if !strings.Contains(string(text), "| `"+key+"` |") {
			t.Errorf("key %s is not documented", key)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"\x1b]0;x\x07":           `\x1b]0;x\x07`,
		"a\u202eb":               `a\xe2\x80\xaeb`,
		"\x7f":                   `\x7f`,
		strings.Repeat("x", 300): strings.Repeat("x", 255),
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
