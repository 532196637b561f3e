package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// checkOptions are the flags of check.
type checkOptions struct {
	policyOptions
	file    string
	resolve bool
	json    bool
}

func newCheckCmd(u *ui) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [flags] HOST[:PORT] | -f FILE",
		Short: "say whether a host is allowed, by which rule, and why",
		Long: `check judges a host as the gate would. On the host it takes the rules from its
flags, resolves the name and judges its addresses; in a sandbox it asks the
sandbox's own gate. The status is 0 for allowed, and 1 for refused or a name
that leads nowhere. 'aisb gate --help' says what a rule may be.

With -f it judges many hosts, by the rules alone: a line of FILE is
"allow HOST[:PORT]" or "deny HOST[:PORT]", # begins a comment. The status is 1
if one of them is not as its line says.`,
		Example: `  aisb check --allow '*.example.com' www.example.com
  aisb check example.com:8443                         in a sandbox
  aisb check --allow-file rules.txt -f expected.txt   in a CI job`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.file == "" && len(args) != 1:
				return fmt.Errorf("there are %d hosts, expected one, or -f FILE", len(args))
			case o.file != "" && len(args) > 0:
				return fmt.Errorf("there are both a host and -f %q; write the host into the file", o.file)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.file != "" {
				return o.checkFile(cmd.Context(), u)
			}
			return o.checkOne(cmd.Context(), u, args[0])
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "judge the lines of `FILE`, - is standard input")
	cmd.Flags().BoolVar(&o.resolve, "resolve", false, "with -f, resolve names and judge addresses too")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object, with -f one a line")
	return cmd
}

// judge decides a target.
type judge func(context.Context, policy.Target) (checked, error)

// judge is the sandbox's gate, or one made of the flags' rules.
func (o *checkOptions) judge(u *ui) (judge, error) {
	if o.given() {
		return o.judgeHere(u)
	}
	switch inside := os.Getenv("AISB_GATE"); {
	case inside != "":
		return func(ctx context.Context, t policy.Target) (checked, error) { return checkInside(ctx, inside, t) }, nil
	case inSandbox():
		return nil, &exitError{code: 1, err: errors.New("this sandbox has no gate: it runs with --no-gate, --net none or --net full"),
			hint: "judge rules of your own by --allow or --allow-file"}
	}
	return o.judgeHere(u)
}

// inSandbox reports whether this is a container of aisb's: podman says that it
// is a container, and aisb's entrypoint is mounted.
func inSandbox() bool {
	for _, name := range []string{"/run/.containerenv", "/usr/libexec/aisb-entry"} {
		if _, err := os.Lstat(name); err != nil {
			return false
		}
	}
	return true
}

// checkOne judges one host.
func (o *checkOptions) checkOne(ctx context.Context, u *ui, text string) error {
	target, err := parseChecked(text)
	if err != nil {
		return err
	}
	j, err := o.judge(u)
	if err != nil {
		return err
	}
	c, err := j(ctx, target)
	if err != nil {
		return err
	}
	return c.print(u, o.json)
}

// parseChecked reads HOST[:PORT]. A URL or the like gets the host in it as a
// hint.
func parseChecked(text string) (policy.Target, error) {
	target, err := policy.ParseHost(text, 443)
	if err == nil {
		return target, nil
	}
	hint := "expected HOST or HOST:PORT"
	if meant, is := policy.MeantTarget(text); is != "" {
		err = errors.New(is)
		if meant != "" {
			hint = "aisb check " + meant
		}
	}
	return target, &exitError{code: exitUsage, err: fmt.Errorf("%q: %w", text, err), hint: hint}
}

// checked is what check prints with --json.
type checked struct {
	Host      string        `json:"host"`
	Port      uint16        `json:"port"`
	Allow     bool          `json:"allow"`
	Reason    policy.Reason `json:"reason"`
	Rule      string        `json:"rule,omitempty"`
	Origin    string        `json:"origin,omitempty"`
	Addresses []netip.Addr  `json:"addresses,omitempty"`
	Why       string        `json:"why,omitempty"`
	Hint      string        `json:"hint,omitempty"`
}

// judgeHere judges by the rules of the flags. Names of a file are resolved only
// when that is asked for: what a CI job finds out about rules should not depend
// on the DNS.
func (o *checkOptions) judgeHere(u *ui) (judge, error) {
	servers, err := o.servers()
	if err != nil {
		return nil, err
	}
	p, warnings, err := o.policy()
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		u.warnf("%s", w)
	}
	if !o.given() {
		u.warnf("there are no rules to judge by, so nothing is allowed; give those of the run, by --allow or --allow-file")
		u.hintf("all rules of a run here, those of configuration files and keys too: aisb run --dry-run")
	}
	g, err := gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: servers}), Log: gate.NewLog(io.Discard, ""),
	})
	if err != nil {
		return nil, err
	}
	explain := g.Explain
	if o.file != "" && !o.resolve {
		explain = func(_ context.Context, t policy.Target) gate.Explanation { return g.ExplainRules(t) }
	}
	return func(ctx context.Context, t policy.Target) (checked, error) {
		e := explain(ctx, t)
		c := checked{Host: t.Name(), Port: t.Port, Allow: e.Allow, Reason: e.Reason, Rule: e.Rule, Origin: e.Origin, Addresses: e.Addrs, Why: e.Why}
		if e.Suggest != "" {
			c.Hint = "allow it with --allow " + shellQuote(e.Suggest)
		}
		return c, nil
	}, nil
}

// print prints the result; a refusal has status 1.
func (c checked) print(u *ui, asJSON bool) error {
	if asJSON {
		if err := jsonEncoder(u.Out).Encode(c); err != nil {
			return err
		}
	} else {
		c.printText(u)
	}
	if !c.Allow {
		return &exitError{code: 1}
	}
	return nil
}

func (c checked) printText(u *ui) {
	verdict := "allowed"
	switch {
	case slices.Contains(notReached, c.Reason):
		verdict = "allowed, but can't be reached" // status 1 all the same: it would not pass
	case !c.Allow:
		verdict = "refused"
	}
	fmt.Fprintf(u.Out, "%s %s: %s\n", printable(hostPort(c.Host, c.Port)), verdict, c.Reason)
	if c.Why != "" {
		fmt.Fprintf(u.Out, "why:       %s\n", printable(c.Why))
	}
	if c.Rule != "" {
		origin := ""
		if c.Origin != "" {
			origin = " (" + c.Origin + ")"
		}
		fmt.Fprintf(u.Out, "rule:      %s%s\n", printable(c.Rule), printable(origin))
	}
	if len(c.Addresses) > 0 {
		var texts []string
		for _, a := range c.Addresses {
			texts = append(texts, a.String())
		}
		fmt.Fprintf(u.Out, "addresses: %s\n", strings.Join(texts, " "))
	}
	if c.Hint != "" {
		fmt.Fprintf(u.Out, "hint:      %s\n", printable(c.Hint))
	}
}

// checkInside asks the sandbox's gate.
func checkInside(ctx context.Context, proxy string, t policy.Target) (checked, error) {
	c, err := askGate(ctx, proxy, t)
	if err != nil {
		return checked{}, &exitError{code: 1, err: err, hint: "AISB_GATE names the gate; is it still running?"}
	}
	out := checked{Host: t.Name(), Port: t.Port, Allow: c.Allow, Reason: c.Reason, Rule: c.Rule}
	if !c.Allow {
		out.Why = gate.Why(t, c)
		out.Hint = "the person who runs this sandbox can allow it; working round it is not wanted"
	}
	return out, nil
}

// askGate asks a gate through itself.
func askGate(ctx context.Context, proxy string, t policy.Target) (gate.Check, error) {
	via, err := url.Parse(proxy)
	if err != nil || via.Host == "" {
		return gate.Check{}, fmt.Errorf("AISB_GATE %q is not http://ADDR:PORT", proxy)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Proxy: http.ProxyURL(via)}}
	where := "http://control.aisb.invalid/check?target=" + url.QueryEscape(t.String())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return gate.Check{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return gate.Check{}, fmt.Errorf("ask the gate: %w", err)
	}
	defer resp.Body.Close()
	var c gate.Check
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&c) != nil {
		return gate.Check{}, fmt.Errorf("ask the gate: it answers %s", resp.Status)
	}
	return c, nil
}
