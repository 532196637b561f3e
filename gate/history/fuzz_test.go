package history

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
)

// logOf is what a gate with a policy logs of requests, each to a public address.
func logOf(p *policy.Policy, targets []policy.Target, plain bool) string {
	var b strings.Builder
	for i, t := range targets {
		d := p.Decide(t)
		l := map[string]any{"ts": "2026-11-29T10:00:00.000Z", "id": i + 1, "method": "CONNECT", "host": t.Name(), "port": t.Port, "reason": d.Reason}
		switch l["event"] = "deny"; {
		case d.Allow && d.Reason == policy.HostService:
			l["event"], l["addr"] = "allow", "127.0.0.1:1"
		case d.Allow && (!t.IsAddr() || p.CheckAddr(d, t.Addr, t.Port) == d.Reason):
			l["event"], l["addr"] = "allow", "9.9.9.9:1"
			if t.IsAddr() {
				l["addr"] = t.String()
			}
		case d.Allow:
			l["reason"] = policy.SpecialAddress
		}
		if !plain || !d.TCP {
			l["sni"] = t.Name()
		}
		line, _ := json.Marshal(l)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// By its own rules nothing of a log changes, and by those that are suggested for
// it nothing is refused that was allowed.
func FuzzReplay(f *testing.F) {
	f.Add("a.test *.b.test:22+tcp", "a.test:443 x.b.test:22 evil.test:80", true)
	f.Add("10.0.0.0/8:*+private [2620:fe::fe]:853 host.containers.internal:80", "10.0.0.1:5 [2620:fe::fe]:853 host.containers.internal:80", false)
	f.Add("db.local+private+tcp *", "db.local:80 db.local:443 any.test:443 9.9.9.9:443", true)
	f.Fuzz(func(t *testing.T, allow, text string, plain bool) {
		var lines []policy.Line
		for r := range strings.FieldsSeq(allow) {
			lines = append(lines, policy.Line{Text: r})
		}
		p, _, err := policy.Parse(lines, nil, policy.Options{AllowAllNames: true})
		if err != nil {
			return
		}
		var targets []policy.Target
		for s := range strings.FieldsSeq(text) {
			if target, err := policy.ParseAuthority(s); err == nil {
				targets = append(targets, target)
			}
		}
		r := New()
		if err := Read(strings.NewReader(logOf(p, targets, plain)), r.Add); err != nil {
			t.Fatal(err)
		}
		if got := r.Against(p); len(got.Denied)+len(got.Allowed) > 0 {
			t.Errorf("by its own rules %q: %+v", allow, got)
		}
		suggested := strings.Join(r.Suggest(), " ")
		if got := r.Against(rules(t, suggested, "")); len(got.Denied) > 0 {
			t.Errorf("of %q by the suggested %q: %+v", allow, suggested, got)
		}
	})
}
