package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

func newCheckCmd(u *ui) *cobra.Command {
	var o policyOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check HOST[:PORT]",
		Short: "say whether a host is allowed, by which rule, and why",
		Long: `check judges a host as the gate would. On the host it takes the rules from its
flags, resolves the name and judges its addresses; in a sandbox it asks the
sandbox's own gate. The status is 0 for allowed and 1 for refused. 'aisb gate
--help' says what a rule may be.`,
		Example: `  aisb check --allow '*.example.com' www.example.com
  aisb check example.com:8443     in a sandbox`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := policy.ParseHost(args[0], 443)
			if err != nil {
				return &exitError{code: exitUsage, err: fmt.Errorf("%q: %w", args[0], err), hint: "expected HOST or HOST:PORT"}
			}
			inside := os.Getenv("AISB_GATE")
			if inside != "" && !o.given() {
				return checkInside(cmd.Context(), u, inside, target, asJSON)
			}
			return o.checkHere(cmd.Context(), u, target, asJSON)
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
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

// checkHere judges a target by the rules of the flags.
func (o *policyOptions) checkHere(ctx context.Context, u *ui, t policy.Target, asJSON bool) error {
	servers, err := o.servers()
	if err != nil {
		return err
	}
	p, _, err := o.policy()
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: servers}), Log: gate.NewLog(io.Discard, ""),
	})
	if err != nil {
		return err
	}
	e := g.Explain(ctx, t)
	c := checked{Host: t.Name(), Port: t.Port, Allow: e.Allow, Reason: e.Reason, Rule: e.Rule, Origin: e.Origin, Addresses: e.Addrs, Why: e.Why}
	if e.Suggest != "" {
		c.Hint = "allow it with --allow " + e.Suggest
	}
	return c.print(u, asJSON)
}

// print prints the result; a refusal has status 1.
func (c checked) print(u *ui, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(u.Out).Encode(c); err != nil {
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
	if !c.Allow {
		verdict = "refused"
	}
	fmt.Fprintf(u.Out, "%s %s: %s\n", hostPort(c.Host, c.Port), verdict, c.Reason)
	if c.Why != "" {
		fmt.Fprintf(u.Out, "why:       %s\n", c.Why)
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
		fmt.Fprintf(u.Out, "hint:      %s\n", c.Hint)
	}
}

// checkInside asks the sandbox's gate.
func checkInside(ctx context.Context, u *ui, proxy string, t policy.Target, asJSON bool) error {
	c, err := askGate(ctx, proxy, t)
	if err != nil {
		return &exitError{code: 1, err: err, hint: "AISB_GATE names the gate; is it still running?"}
	}
	out := checked{Host: t.Name(), Port: t.Port, Allow: c.Allow, Reason: c.Reason, Rule: c.Rule}
	if !c.Allow {
		out.Hint = "the person who runs this sandbox can allow it; working round it is not wanted"
	}
	return out.print(u, asJSON)
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
