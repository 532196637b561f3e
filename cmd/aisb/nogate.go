package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/direct"
)

// noGate is the value of --no-gate: "" without it, "names", or what follows the =.
type noGate string

const (
	noGateNames noGate = "names"
	noGateDNS   noGate = "dns"
)

// String implements pflag.Value.
func (n *noGate) String() string { return string(*n) }

// Type implements pflag.Value: it is shown as a flag that needs no value.
func (n *noGate) Type() string { return "bool" }

// Set implements pflag.Value.
func (n *noGate) Set(text string) error {
	switch text {
	case "true":
		*n = noGateNames
	case "false":
		*n = ""
	case string(noGateDNS):
		*n = noGateDNS
	default:
		return errors.New("it is --no-gate or --no-gate=dns")
	}
	return nil
}

func (n *noGate) flag(f *pflag.FlagSet) {
	f.Var(n, "no-gate", "no proxy: open the addresses of allowed names\n(=dns: and the name server)")
	f.Lookup("no-gate").NoOptDefVal = "true"
}

// directly turns the network into one without a gate. It does nothing without
// --no-gate.
func (o runOptions) directly(p *prepared, rules *policy.Policy) error {
	if o.noGate == "" {
		return nil
	}
	if p.spec.Backend == sandbox.Inner {
		return &exitError{code: exitUsage, err: errors.New("--no-gate needs a network inside, which --net-backend inner doesn't make"),
			hint: "leave out --net-backend, or --no-gate"}
	}
	if _, err := direct.Targets(rules); err != nil {
		return gateRuleError(err)
	}
	p.spec.Net, p.spec.Backend = sandbox.NetNoGate, sandbox.Pasta
	p.warnings = append(p.warnings, "--no-gate: addresses are open, not names; whoever else is at one of them can be reached too, and the log tells of no request")
	if p.spec.NoGate.DNS = o.noGate == noGateDNS; p.spec.NoGate.DNS {
		p.warnings = append(p.warnings, "--no-gate=dns: the sandbox can ask the host's name server anything, and so send data to anyone in the names it asks for")
	}
	return nil
}

// openedText is the receipt's part about what was open.
func openedText(o sandbox.Opened) string {
	return fmt.Sprintf("no gate: %s of %s were open at the end (packets of %s up, %s down)",
		plural(o.Peers, "address and port", "addresses and ports"), plural(o.Names, "name", "names"), size(int64(o.Up)), size(int64(o.Down)))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
