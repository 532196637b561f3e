package policy

import (
	"net/netip"
	"strings"
)

// impossible says why an allow rule can never let anything through, however
// well formed. A rule that does nothing is worse than an error: its author
// believes in it.
func (r *Rule) impossible() (h hint, problem string) {
	switch {
	case r.All && r.Private:
		return hint{text: "name the private hosts, or a domain of theirs: *.corp.example+private"}, "opens the private network to every name"
	case r.All:
		return hint{}, ""
	case r.Prefix.IsValid():
		return r.impossibleAddr()
	}
	if isLocalhost(r.Name) {
		return r.meantService(), "names the host itself, which no rule can open"
	}
	if r.Name == ReservedDomain || strings.HasSuffix(r.Name, "."+ReservedDomain) {
		return hint{}, "names the gate's own reserved names"
	}
	if r.Name == ServiceHost && !r.Wildcard {
		if r.Port == 0 {
			return hint{rules: []string{ServiceHost + ":8080"}, text: "with the service's port"}, "needs a port"
		}
		return hint{}, ""
	}
	if (r.Name == "host.docker.internal" || r.Name == "gateway.docker.internal") && !r.Private {
		return r.meantService(), "is the host's name in another tool"
	}
	if isLocalName(r.Name, r.Wildcard) && !r.Private {
		if strings.HasPrefix(r.Text, "-") { // the flag had no value and took the next word
			return hint{text: "write a rule after the flag, such as --allow example.com"}, "begins with \"-\", as a flag does"
		}
		return hint{rules: []string{r.Text}, text: "if it is a name of your own network"}, "is a local name, which is looked up only with +private"
	}
	return hint{}, ""
}

func (r *Rule) impossibleAddr() (h hint, problem string) {
	if !r.Prefix.IsSingleIP() && r.Port == 0 && !r.AnyPort {
		text, options, _ := strings.Cut(r.Text, "+")
		if options != "" {
			options = "+" + options
		}
		return hint{rules: []string{text + ":443" + options}}, "is a range of addresses without a port"
	}
	switch class := rangeClass(r.Prefix); {
	case r.Prefix.Addr().IsLoopback():
		return r.meantService(), "names the host itself, which no rule can open"
	case class == Metadata:
		return hint{}, "is a cloud's metadata service, which no rule can open"
	case class == Special:
		return hint{}, "is a special-purpose address, which no rule can open"
	case class == Private && !r.Private:
		return hint{rules: []string{r.Text}}, "is a private address, which is reached only with +private"
	}
	return hint{}, ""
}

// rangeClass is the class of a range that lies wholly in one of the tables,
// and Public for one that can hold public addresses.
func rangeClass(p netip.Prefix) Class {
	if p.IsSingleIP() {
		return Classify(p.Addr())
	}
	within := func(set []netip.Prefix) bool {
		for _, s := range set {
			if s.Bits() <= p.Bits() && s.Contains(p.Addr()) {
				return true
			}
		}
		return false
	}
	switch {
	case within(private4), within([]netip.Prefix{unique6}):
		return Private
	case within(special4), within(special6):
		return Special
	case p.Addr().Is6() && p.Bits() >= 3 && !global6.Contains(p.Addr()) && !nat64.Overlaps(p):
		return Special
	}
	return Public
}

// isLocalhost reports names that mean the machine itself (RFC 6761, section
// 6.3), whatever a rule says.
func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isLocalName reports names that have no meaning in the public DNS: single
// labels, .local (RFC 6762) and .internal (reserved by ICANN in 2024). With
// wildcard it is about the names below.
func isLocalName(name string, wildcard bool) bool {
	if !strings.Contains(name, ".") && !wildcard {
		return true
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last == "local" || last == "internal"
}
