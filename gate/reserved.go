package gate

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
)

// The reserved names that the gate answers itself. They are never resolved,
// and not counted: they are no traffic of the client's.
const (
	proofSuffix = ".proof." + policy.ReservedDomain
	controlHost = "control." + policy.ReservedDomain

	// ProofHeader carries the proof of which gate it is.
	ProofHeader = "X-Aisb-Proof"
	// NonceHeader carries what is to be proved.
	NonceHeader = "X-Aisb-Nonce"
)

// isReserved reports names that never leave the gate.
func isReserved(host string) bool {
	return host == policy.ReservedDomain || strings.HasSuffix(host, "."+policy.ReservedDomain)
}

// Proof is what a gate with this key says to a nonce.
func Proof(key []byte, nonce string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(nonce))
	return hex.EncodeToString(mac.Sum(nil))
}

// Check is the answer of the control name to a question about a target. It has
// no addresses: what a name leads to is nobody's business inside.
type Check struct {
	Allow  bool          `json:"allow"`
	Rule   string        `json:"rule,omitempty"`
	Reason policy.Reason `json:"reason"`
}

// reserved answers a request for a reserved name.
func (g *Gate) reserved(req *http.Request, x *exchange) *http.Response {
	host := x.target.Host
	switch {
	case strings.HasSuffix(host, proofSuffix):
		// A refusal like any other, by this run's gate and no other.
		resp := plainResponse(req, http.StatusForbidden, "refused, as it must be\n")
		resp.Header.Set(reasonHeader, string(policy.ReservedName))
		g.prove(resp, strings.TrimSuffix(host, proofSuffix))
		return resp
	case host == controlHost && x.target.Port == 80:
		return g.control(req)
	}
	return plainResponse(req, http.StatusNotFound, "no such name of the gate\n")
}

func (g *Gate) prove(resp *http.Response, nonce string) {
	if len(g.key) > 0 && nonce != "" {
		resp.Header.Set(ProofHeader, Proof(g.key, nonce))
	}
}

func (g *Gate) control(req *http.Request) *http.Response {
	if req.Method != http.MethodGet {
		return plainResponse(req, http.StatusMethodNotAllowed, "only GET\n")
	}
	switch req.URL.Path {
	case "/healthz":
		resp := plainResponse(req, http.StatusNoContent, "")
		g.prove(resp, req.Header.Get(NonceHeader))
		return resp
	case "/check":
		t, err := policy.ParseHost(req.URL.Query().Get("target"), 443)
		if err != nil {
			return plainResponse(req, http.StatusBadRequest, "target: "+err.Error()+"\n")
		}
		body, err := json.Marshal(g.Check(t))
		if err != nil {
			return plainResponse(req, http.StatusInternalServerError, "")
		}
		resp := plainResponse(req, http.StatusOK, string(body)+"\n")
		resp.Header.Set("Content-Type", "application/json")
		return resp
	}
	return plainResponse(req, http.StatusNotFound, "there are /healthz and /check\n")
}

// Check says what the rules say of a target. Nothing is resolved.
func (g *Gate) Check(t policy.Target) Check {
	d := g.policy.Load().Decide(t)
	return Check{Allow: d.Allow, Rule: d.RuleText(), Reason: d.Reason}
}

// plainResponse is an answer for goproxy to write.
func plainResponse(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// Explanation is a decision in full, for whoever makes the rules.
type Explanation struct {
	Check
	Origin  string       // where the rule was written
	Addrs   []netip.Addr // what an allowed name leads to
	Why     string       // of a refusal, in words
	Suggest string       // the rule that would allow it, "" if none can
}

// Explain decides a target as for a request, and resolves it, but dials nothing.
func (g *Gate) Explain(ctx context.Context, t policy.Target) Explanation {
	dec, ref := g.decide(ctx, http.MethodConnect, t)
	e := g.explain(t, ref)
	if ref == nil {
		for _, a := range dec.addrs {
			e.Addrs = append(e.Addrs, a.Addr())
		}
	}
	return e
}

// Refuses says why an address that a target had led to may not be reached any more, as it
// is judged now. No query leaves, and what can't be told at the moment is no reason.
func (g *Gate) Refuses(t policy.Target, addr netip.Addr) (reason policy.Reason, refused bool) {
	p := g.policy.Load()
	d := p.Decide(t)
	if !d.Allow {
		return d.Reason, true
	}
	reason, _ = g.judge(p, d, []netip.Addr{addr}, t.Port)
	return reason, reason != d.Reason && reason != policy.Limit
}

// ExplainRules decides a target by the rules alone: no query leaves.
func (g *Gate) ExplainRules(t policy.Target) Explanation {
	d := g.policy.Load().Decide(t)
	if d.Allow {
		return g.explain(t, nil)
	}
	return g.explain(t, refuse(http.MethodConnect, t, d))
}

func (g *Gate) explain(t policy.Target, r *refusal) Explanation {
	d := g.policy.Load().Decide(t)
	e := Explanation{Check: Check{Allow: d.Allow, Rule: d.RuleText(), Reason: d.Reason}}
	if d.Rule != nil {
		e.Origin = d.Rule.Origin
	}
	if r != nil {
		e.Allow, e.Reason, e.Why, e.Suggest = false, r.reason, r.why, r.allow
	}
	return e
}

// Why says in words why a gate's answer to a question is a refusal.
func Why(t policy.Target, c Check) string {
	d := policy.Decision{Reason: c.Reason}
	if c.Rule != "" {
		d.Rule = &policy.Rule{Text: c.Rule}
	}
	return refuse(http.MethodConnect, t, d).why
}
