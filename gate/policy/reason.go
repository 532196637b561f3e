package policy

// Reason says why something was allowed or refused. The set is closed and the
// same in the log, in the answer's X-Aisb-Reason and in metrics;
// docs/gate-log.md describes each.
type Reason string

// Reasons to allow.
const (
	Listed      Reason = "listed"       // an allow rule names it
	HostService Reason = "host-service" // a rule names host.containers.internal:PORT
)

// Reasons of the policy to refuse, found before any query or connection.
const (
	DeniedRule    Reason = "denied-rule"     // a deny rule names it
	NotListed     Reason = "not-listed"      // no allow rule names it
	PortNotListed Reason = "port-not-listed" // the host is listed, this port isn't
	IPLiteral     Reason = "ip-literal"      // an address that no rule lists
	ReservedName  Reason = "reserved-name"   // localhost, single labels, .local, .internal
)

// Reasons of the addresses to refuse, found before any connection.
const (
	SpecialAddress Reason = "special-address" // not a public address, see Classify
	OwnAddress     Reason = "own-address"     // an address of the gate's own host
	MixedAnswer    Reason = "mixed-answer"    // some addresses are fine, some aren't
)

// Reasons why an allowed target can't be reached.
const (
	NXDomain        Reason = "nxdomain"
	DNSFailure      Reason = "dns-failure"
	DialFailure     Reason = "dial-failure"
	UpstreamFailure Reason = "upstream-failure" // the origin broke the protocol
)

// Reasons to cut a tunnel by what the client sent in it.
const (
	NoSNI       Reason = "no-sni"
	SNIMismatch Reason = "sni-mismatch"
	NotTLS      Reason = "not-tls"
)

// Reasons that concern the request, the client or the gate itself.
const (
	BadRequest       Reason = "bad-request"
	Limit            Reason = "limit"
	Budget           Reason = "budget"
	ForeignClient    Reason = "foreign-client"
	ClientNotAllowed Reason = "client-not-allowed"
	PolicyChanged    Reason = "policy-changed"
	Shutdown         Reason = "shutdown"
)

// Reasons lists the closed set in the order of its documentation.
func Reasons() []Reason {
	return []Reason{
		Listed, HostService, DeniedRule, NotListed, PortNotListed, IPLiteral, ReservedName,
		SpecialAddress, OwnAddress, MixedAnswer, NXDomain, DNSFailure, DialFailure,
		NoSNI, SNIMismatch, NotTLS, BadRequest, Limit, Budget, ForeignClient,
		ClientNotAllowed, UpstreamFailure, PolicyChanged, Shutdown,
	}
}
