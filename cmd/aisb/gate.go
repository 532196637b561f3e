package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// gateOptions are the flags of gate, and those of check that say the same.
type gateOptions struct {
	policyOptions

	listen       string
	listenGiven  bool
	allowClients []string
	allowUsers   []string
	tokenFile    string

	metrics       string
	metricsRemote bool

	upstream         string
	upstreamAuth     string
	upstreamResolves bool

	drain   time.Duration
	confine confineOptions
}

func newGateCmd(u *ui) *cobra.Command {
	o := gateOptions{drain: 1500 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "run only the proxy: connect where rules allow, and log it",
		Long: `gate is a forward proxy for HTTP and CONNECT that resolves names itself and
connects only where a rule allows. It logs one JSON object a line on stdout.

A rule is HOST (ports 80 and 443), HOST:PORT, HOST:*, *.HOST (the names below
HOST), IP, IP:PORT, CIDR:PORT or host.containers.internal:PORT (a service on
this machine), with +private, +tcp or +upload=SIZE behind. A deny rule wins.

SIGHUP reads the files again; when one is invalid, all stays as it was. SIGTERM
lets open tunnels end for a moment, a second one doesn't. Under systemd the gate
takes the sockets that it is given, and says when it is ready.`,
		Example: `  aisb gate --allow example.com --allow '*.example.com' | jq -c .
  aisb gate --listen 127.0.0.1:3128 --allow-file rules.txt --resolver 9.9.9.9
  curl -x http://127.0.0.1:3128 https://example.com   # elsewhere, same user`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.listenGiven = cmd.Flags().Changed("listen")
			return runGate(cmd.Context(), u, o)
		},
	}
	cmd.AddCommand(newGateLogsCmd(u), newGateReplayCmd(u))
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:3128", "listen at `IP:PORT`")
	o.flags(f)
	f.StringArrayVar(&o.allowClients, "allow-client", nil, "serve clients of the network `CIDR`")
	f.StringArrayVar(&o.allowUsers, "allow-user", nil, "over loopback serve `USER`'s processes too")
	textVar(f, &o.tokenFile, "auth-token-file", "", "serve only who shows a token of `FILE`")
	textVar(f, &o.upstream, "upstream-proxy", "", "connect through `URL`, http://HOST:PORT")
	textVar(f, &o.upstreamAuth, "upstream-auth-file", "", "show that proxy the USER:PASSWORD in `FILE`")
	f.BoolVar(&o.upstreamResolves, "upstream-resolves", false, "let that proxy resolve names; their addresses\nare then not judged")
	textVar(f, &o.metrics, "metrics", "", "metrics for Prometheus at `IP:PORT`")
	f.BoolVar(&o.metricsRemote, "metrics-allow-remote", false, "let other machines reach --metrics")
	f.Var((*timeValue)(&o.drain), "drain", "give tunnels `TIME` at SIGTERM")
	o.confine.flags(f)
	return cmd
}

// policyOptions are the flags that make a policy and a resolver.
type policyOptions struct {
	allow, deny []string
	allowFile   []string
	denyFile    []string
	presets     presetOptions
	allowAll    bool
	resolver    []string
}

func (o *policyOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	listVar(f, &o.allow, "allow", "allow `RULE` (repeatable, comma list)")
	f.StringArrayVar(&o.allowFile, "allow-file", nil, "allow the rules in `FILE`, one a line")
	listVar(f, &o.deny, "deny", "deny `RULE`, whatever allows it")
	f.StringArrayVar(&o.denyFile, "deny-file", nil, "deny the rules in `FILE`")
	o.presets.flag(f)
	f.BoolVar(&o.allowAll, "allow-all-names", false, "let the rule * allow any public name")
	f.StringArrayVar(&o.resolver, "resolver", nil, "ask the name server `IP[:PORT]`, tls://IP or\nhttps://IP instead of the host's")
}

// given reports whether there is any rule in the flags.
func (o *policyOptions) given() bool {
	return len(o.allow)+len(o.allowFile)+len(o.deny)+len(o.denyFile)+len(o.presets.names) > 0
}
