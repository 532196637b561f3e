package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
)

// publishOptions are the flags of run about ports.
type publishOptions struct{ ports []string }

func (o *publishOptions) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.ports, "publish", "p", nil, "`HERE[:IN]`: lead 127.0.0.1:HERE to port IN inside")
}

// publishPorts reads the ports, and sees that they can be had.
func (o runOptions) publishPorts(p *prepared) error {
	for _, text := range o.publish.ports {
		port, err := parsePublish(text)
		if err != nil {
			return err
		}
		if p.spec.Net == sandbox.NetAllow && port.Port == sandbox.GatePort {
			return publishError(text, "choose another port for the server in the sandbox", "%d is the gate's own port in the sandbox", port.Port)
		}
		for _, other := range p.spec.Publish {
			if other.Host == port.Host && port.Host != 0 {
				return publishError(text, "each takes a port of its own", "port %d is there twice", port.Host)
			}
		}
		p.spec.Publish = append(p.spec.Publish, port)
	}
	if err := sandbox.CheckPublish(p.spec.Publish); err != nil {
		return startError(err)
	}
	return nil
}

func publishError(text, hint, format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf("--publish %q: "+format, append([]any{text}, args...)...), hint: hint}
}

const (
	publishHint = "write HOSTPORT, HOSTPORT:PORT or 127.0.0.1:HOSTPORT:PORT, such as -p 8080 or -p 8080:80"
	// Whoever can reach the port talks to what the agent serves, with this user's
	// name in the eyes of others.
	publishLocal = "what an agent serves is for this user of this machine alone\n" +
		"from another machine: ssh -L %[1]d:127.0.0.1:%[1]d THIS-MACHINE"
)

// parsePublish reads [127.0.0.1:]HOSTPORT[:PORT].
func parsePublish(text string) (sandbox.Publish, error) {
	none := sandbox.Publish{}
	if _, protocol, ok := strings.Cut(text, "/"); ok {
		return none, publishError(text, publishHint, "%q: only TCP is let in", protocol)
	}
	address, ports := splitPublish(text)
	fields := strings.Split(ports, ":")
	var numbers []uint16
	for _, f := range fields {
		n, err := strconv.ParseUint(f, 10, 16)
		switch {
		case err != nil && strings.Contains(f, "-"):
			return none, publishError(text, "-p once for each", "a range of ports")
		case err != nil || strings.HasPrefix(f, "+"):
			return none, publishError(text, publishHint, "%q is not a port", f)
		}
		numbers = append(numbers, uint16(n))
	}
	if address != "" && address != "127.0.0.1" {
		return none, publishError(text, fmt.Sprintf(publishLocal, numbers[0]), "%s: ports are at 127.0.0.1 alone", address)
	}
	switch {
	case len(numbers) > 2:
		return none, publishError(text, publishHint, "too many colons")
	case len(numbers) == 1 && numbers[0] == 0:
		return none, publishError(text, "name the port in the sandbox: -p 0:8080", "0 takes any free port of this machine")
	case len(numbers) == 1:
		return sandbox.Publish{Host: numbers[0], Port: numbers[0]}, nil
	case numbers[1] == 0:
		return none, publishError(text, publishHint, "the port in the sandbox is 0")
	}
	return sandbox.Publish{Host: numbers[0], Port: numbers[1]}, nil
}

// splitPublish cuts an address, or a name in the place of one, off the ports.
func splitPublish(text string) (address, ports string) {
	if strings.HasPrefix(text, "[") {
		address, ports, _ = strings.Cut(text, "]:")
		return address + "]", ports
	}
	first, rest, ok := strings.Cut(text, ":")
	if !ok {
		return "", text
	}
	if _, err := netip.ParseAddr(first); err == nil || strings.ContainsFunc(first, func(r rune) bool { return r >= 'a' && r <= 'z' || r == '*' }) {
		return first, rest
	}
	return "", text
}

// sayJoins says what a sandbox that has started is joined with: others, and ports
// of this machine, of which nobody knows the number that a 0 got.
func sayJoins(u *ui, session *sandbox.Session) {
	if joined := session.Joined(); joined != nil {
		u.warnf("--share: this sandbox and %s can reach each other by files and sockets", strings.Join(joined, ", "))
	}
	for _, p := range session.Published() {
		u.notef("127.0.0.1:%d leads to port %d in the sandbox", p.Host, p.Port)
	}
}
