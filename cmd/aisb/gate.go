package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// gateOptions are the flags of gate, and those of check that say the same.
type gateOptions struct {
	listen       string
	allow, deny  []string
	allowFile    []string
	denyFile     []string
	allowAll     bool
	resolver     []string
	allowClients []string
	drain        time.Duration
}

func newGateCmd(u *ui) *cobra.Command {
	var o gateOptions
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "run only the proxy: connect where the rules allow, log each decision",
		Long: `gate is a forward proxy for HTTP and CONNECT that resolves names itself and
connects only where a rule allows. It logs one JSON object a line on stdout.

A rule is HOST (ports 80 and 443), HOST:PORT, HOST:*, *.HOST (the names below
HOST), IP, IP:PORT, CIDR:PORT or host.containers.internal:PORT (a service on this
machine), with +private, +tcp or +upload=SIZE behind. A deny rule wins.

SIGHUP reads the rules again; when they are invalid, the old ones stay. SIGTERM
lets open tunnels end for a moment, a second one doesn't.`,
		Example: `  aisb gate --listen 127.0.0.1:3128 --allow example.com --allow '*.example.com' | jq .
  aisb gate --listen 127.0.0.1:3128 --allow-file rules.txt --resolver 9.9.9.9
  curl -x http://127.0.0.1:3128 https://example.com     elsewhere, as the same user`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runGate(cmd.Context(), u, o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:3128", "accept clients at `ADDR`, an IP and a port")
	o.policyFlags(cmd)
	f.StringArrayVar(&o.allowClients, "allow-client", nil, "serve clients of the network `CIDR`; needed where --listen is no loopback address")
	f.DurationVar(&o.drain, "drain", 1500*time.Millisecond, "on SIGTERM let tunnels go on for `TIME`, such as 30s")
	return cmd
}

// policyFlags are the flags that make a policy and a resolver.
func (o *gateOptions) policyFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.allow, "allow", nil, "allow `RULE`: HOST, HOST:PORT, *.HOST, IP, CIDR:PORT (repeatable, comma list)")
	f.StringArrayVar(&o.allowFile, "allow-file", nil, "allow the rules in `FILE`, one a line")
	f.StringSliceVar(&o.deny, "deny", nil, "deny `RULE`, whatever allows it")
	f.StringArrayVar(&o.denyFile, "deny-file", nil, "deny the rules in `FILE`")
	f.BoolVar(&o.allowAll, "allow-all-names", false, "let the rule * allow any public name")
	f.StringArrayVar(&o.resolver, "resolver", nil, "ask the name server `IP[:PORT]`, tls://IP or https://IP instead of the host's")
}

// policy reads the rules. The error's status tells flags from files.
func (o *gateOptions) policy() (*policy.Policy, []policy.Warning, error) {
	allow, err := gateLines(o.allow, "--allow", o.allowFile)
	if err != nil {
		return nil, nil, err
	}
	deny, err := gateLines(o.deny, "--deny", o.denyFile)
	if err != nil {
		return nil, nil, err
	}
	p, warnings, err := policy.Parse(allow, deny, policy.Options{AllowAllNames: o.allowAll})
	if err != nil {
		return nil, nil, gateRuleError(err)
	}
	return p, warnings, nil
}

func gateLines(rules []string, flag string, files []string) ([]policy.Line, error) {
	lines, err := ruleLines(rules, flag, nil)
	for _, name := range files {
		more, ferr := policy.ReadFile(name)
		if ferr != nil {
			return nil, &exitError{code: exitConfig, err: ferr, hint: "name a file that you can read, with one rule a line"}
		}
		lines = append(lines, more...)
	}
	return lines, err
}

// gateRuleError shows what is wrong with each rule. A rule of a flag is a
// wrong call, one of a file a wrong file.
func gateRuleError(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	code, hint, texts := exitConfig, "", []string(nil)
	for _, one := range all {
		texts = append(texts, one.Error())
		var e *policy.RuleError
		if errors.As(one, &e) {
			if strings.HasPrefix(e.Origin, "--") {
				code = exitUsage
			}
			if hint == "" {
				hint = e.Suggestion
			}
		}
	}
	if len(texts) > maxRuleErrors {
		texts = append(texts[:maxRuleErrors], fmt.Sprintf("and %d more", len(texts)-maxRuleErrors))
	}
	return &exitError{code: code, err: errors.New(strings.Join(texts, "; ")), hint: hint}
}

// maxRuleErrors are shown at once.
const maxRuleErrors = 5

// servers are the name servers given.
func (o *gateOptions) servers() ([]resolve.Server, error) {
	var servers []resolve.Server
	for _, text := range o.resolver {
		s, err := resolve.ParseServer(text)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("--resolver: %w", err), hint: "for example --resolver 9.9.9.9 or --resolver tls://9.9.9.9"}
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// clients are those who may use the gate.
func (o *gateOptions) clients(addr netip.AddrPort) (gate.Clients, error) {
	c := gate.Clients{UID: os.Getuid()}
	for _, text := range o.allowClients {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return c, usageError("aisb gate", fmt.Errorf("--allow-client %q is no network such as 10.88.0.0/16", text))
		}
		c.Allow = append(c.Allow, p.Masked())
	}
	if !addr.Addr().IsLoopback() && len(c.Allow) == 0 {
		return c, &exitError{code: exitUsage,
			err:  fmt.Errorf("--listen %q can be reached from other machines", o.listen),
			hint: "say who may use it: --allow-client CIDR"}
	}
	return c, nil
}

// parseListen reads IP:PORT. A name could mean several addresses.
func parseListen(text string) (netip.AddrPort, error) {
	if port, found := strings.CutPrefix(text, "localhost:"); found {
		text = "127.0.0.1:" + port
	}
	if strings.HasPrefix(text, ":") {
		text = "[::]" + text
	}
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return addr, &exitError{code: exitUsage, err: fmt.Errorf("--listen %q is not IP:PORT", text), hint: "for example --listen 127.0.0.1:3128"}
	}
	return addr, nil
}

// runGate is the list of steps from flags to the end of the gate.
func runGate(ctx context.Context, u *ui, o gateOptions) error {
	addr, err := parseListen(o.listen)
	if err != nil {
		return err
	}
	clients, err := o.clients(addr)
	if err != nil {
		return err
	}
	servers, err := o.servers()
	if err != nil {
		return err
	}
	p, warnings, err := o.policy()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		u.warnf("%s", w)
	}
	if p.Len() == 0 {
		u.warnf("there is no rule: everything is refused")
		u.hintf("allow a host: --allow example.com")
	}
	log := gate.NewLog(u.Out, "")
	g, err := gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: servers}), Log: log,
		Clients: clients, Command: "aisb gate",
	})
	if err != nil {
		return err
	}
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return &exitError{code: 1, err: fmt.Errorf("listen: %w", err), hint: "choose another address: --listen 127.0.0.1:0 takes a free port"}
	}
	return serveGate(ctx, u, o, g, ln, log)
}

// serveGate serves until a signal ends it.
func serveGate(ctx context.Context, u *ui, o gateOptions, g *gate.Gate, ln *net.TCPListener, log *gate.Log) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	log.Listening(ln.Addr().(*net.TCPAddr).AddrPort())
	for {
		select {
		case err := <-served:
			return err
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				reloadGate(u, o, g, log)
				continue
			}
			drainGate(ctx, o.drain, g, signals)
			log.Write(gate.Record{Event: gate.EventExit, Reason: policy.Shutdown})
			return nil
		}
	}
}

// drainGate lets tunnels end until the time is over or another signal comes.
func drainGate(ctx context.Context, limit time.Duration, g *gate.Gate, signals <-chan os.Signal) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	g.Drain(ctx)
}

// reloadGate takes new rules if they are valid.
func reloadGate(u *ui, o gateOptions, g *gate.Gate, log *gate.Log) {
	p, warnings, err := o.policy()
	if err != nil {
		u.warnf("the rules are not reloaded, the old ones stay: %v", err)
		log.Write(gate.Record{Event: gate.EventError, Reason: policy.BadRequest})
		return
	}
	for _, w := range warnings {
		u.warnf("%s", w)
	}
	g.SetPolicy(p)
	log.Write(gate.Record{Event: gate.EventReload, Reason: policy.PolicyChanged})
}
