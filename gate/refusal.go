package gate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
)

// refusal is an answer that the gate gives instead of the origin.
type refusal struct {
	reason policy.Reason
	status int
	what   string // what was asked for: CONNECT example.com:443
	why    string // a clause that continues "aisb did not ...: "
	rule   string // the rule that decided, as written
	allow  string // the rule that would allow it, "" if none can
}

// denied reports whether it is a matter of policy rather than a failure on the
// way or a malformed request.
func (r *refusal) denied() bool { return r.status == http.StatusForbidden }

// phrase is what follows the status in the status line. Of a refused CONNECT
// most clients show nothing else.
func (r *refusal) phrase() string {
	if r.denied() {
		return "Blocked by aisb: " + string(r.reason)
	}
	return http.StatusText(r.status)
}

// body says in a few lines what was refused, why, and what would allow it. It
// is written for whoever reads it: often a program that would otherwise try
// the next way round.
func (r *refusal) body(command string) string {
	var b strings.Builder
	if !r.denied() {
		fmt.Fprintf(&b, "aisb: %s\n", r.phrase())
		if r.what != "" {
			fmt.Fprintf(&b, "%s failed: %s.\n", r.what, r.why)
		} else {
			fmt.Fprintf(&b, "%s.\n", r.why)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n", r.phrase())
	if r.what != "" {
		fmt.Fprintf(&b, "%s was refused: %s.\n", r.what, r.why)
	} else {
		fmt.Fprintf(&b, "Refused: %s.\n", r.why)
	}
	if r.allow != "" {
		fmt.Fprintf(&b, "To allow it: %s --allow '%s'\n", command, r.allow)
	}
	b.WriteString("This is a policy and final, not a fault of the network. Working round it is not wanted:\n" +
		"if it is needed, say so to the person who runs this, and go on without it.\n")
	return b.String()
}

// reasonHeader says why, in every answer of the gate's own.
const reasonHeader = "X-Aisb-Reason"

// header is the answer's header.
func (r *refusal) header(length int) http.Header {
	h := http.Header{
		"Content-Type":   {"text/plain; charset=utf-8"},
		"Content-Length": {strconv.Itoa(length)},
		"Connection":     {"close"},
		reasonHeader:     {string(r.reason)},
	}
	if r.status == http.StatusProxyAuthRequired {
		h.Set("Proxy-Authenticate", `Basic realm="aisb", charset="UTF-8"`) // RFC 9110, section 15.5.8
	}
	return h
}

// response is the answer for goproxy to write.
func (r *refusal) response(req *http.Request, command string) *http.Response {
	body := r.body(command)
	return &http.Response{
		Status: strconv.Itoa(r.status) + " " + r.phrase(), StatusCode: r.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header(len(body)), ContentLength: int64(len(body)), Close: true,
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}
}

// write writes the answer to a raw connection.
func (r *refusal) write(w io.Writer, method, command string) error {
	body := r.body(command)
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", r.status, r.phrase())
	_ = r.header(len(body)).Write(&b)
	b.WriteString("\r\n")
	if method != http.MethodHead {
		b.WriteString(body)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// malformed is the answer to a request that could not be understood.
func malformed(err *badRequest) *refusal {
	reason := policy.BadRequest
	if err == errCrowd {
		reason = policy.Limit
	}
	return &refusal{reason: reason, status: err.status, why: err.text}
}

// meansHost is why localhost and its addresses are refused, and where else to
// go: a rule alone doesn't help whoever asks for them again.
const meansHost = "it means the machine itself; the host's services are at http://" + policy.ServiceHost + ":PORT"

// refuse is the answer to a target that the rules don't let through.
func refuse(method string, t policy.Target, d policy.Decision) *refusal {
	r := &refusal{reason: d.Reason, status: http.StatusForbidden, what: method + " " + t.String(), rule: d.RuleText()}
	rule := policy.Suggest(t, false, false)
	switch d.Reason {
	case policy.NotListed:
		r.why, r.allow = "no rule allows this host", rule
	case policy.PortNotListed:
		r.why, r.allow = "the host is allowed, but not this port", rule
	case policy.IPLiteral:
		r.why, r.allow = "addresses must be listed themselves, names are better", rule
		switch {
		case rule == "":
			r.why = "the address is none that a rule can open"
		case strings.HasPrefix(rule, policy.ServiceHost+":"):
			r.why = meansHost
		}
	case policy.DeniedRule:
		r.why = fmt.Sprintf("the rule %q denies it", r.rule)
	case policy.ReservedName:
		switch {
		case t.Host == policy.ServiceHost:
			r.why, r.allow = "services on the host are reached by a rule of their own alone", rule
		case strings.HasSuffix("."+t.Host, ".localhost"):
			r.why, r.allow = meansHost, rule
		default:
			r.why, r.allow = "local names are not looked up without +private", rule
		}
	}
	return r
}

// refuseAddrs is the answer to a name whose addresses can't be dialled, or to a
// listed address that can't. private says that +private would have helped.
func refuseAddrs(method string, t policy.Target, d policy.Decision, reason policy.Reason, private bool) *refusal {
	r := &refusal{reason: reason, status: http.StatusForbidden, what: method + " " + t.String(), rule: d.RuleText()}
	switch reason {
	case policy.OwnAddress:
		r.why = "the name leads to the machine on which aisb runs"
	case policy.MixedAnswer:
		r.why = "the name leads to public and to other addresses at once"
	case policy.DeniedRule:
		r.why = "a rule denies the address that the name leads to"
	default:
		r.why = "the name leads to an address that is not public"
	}
	if private {
		r.allow = policy.Suggest(t, true, false)
	}
	return r
}

// overBudget is the answer to an upload that its rule has no room for.
func overBudget(x *exchange) *refusal {
	return &refusal{
		reason: policy.Budget, status: http.StatusForbidden, what: x.method + " " + x.target.String(),
		why: "the upload budget of the rule is used up", rule: x.decision.RuleText(),
	}
}

// failure is the answer when an allowed target can't be reached. It says
// nothing of addresses.
func failure(method string, t policy.Target, d policy.Decision, reason policy.Reason, status int) *refusal {
	why := map[policy.Reason]string{
		policy.NXDomain:        "the name does not exist, or has no address",
		policy.DNSFailure:      "the name could not be resolved",
		policy.DialFailure:     "no connection could be made",
		policy.UpstreamFailure: "the server's answer broke off or made no sense",
	}[reason]
	return &refusal{reason: reason, status: status, what: method + " " + t.String(), why: why, rule: d.RuleText()}
}
