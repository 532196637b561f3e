package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox"
)

func newRulesetCmd(u *ui) *cobra.Command {
	var gate, canary string
	var open []string
	var dns bool
	cmd := &cobra.Command{
		Use:   "ruleset",
		Short: "print the fence that a sandbox puts up, as nft(8) text",
		Long: `ruleset prints the nftables ruleset that the entrypoint installs in the
sandbox's network namespace, reads back and tries before the harness starts.
The gate's port differs from run to run. With --open it is the fence of
'aisb run --no-gate'.`,
		Example: `  aisb ruleset
  aisb ruleset --open 192.0.2.1:443 --dns
  aisb ruleset --gate 169.254.1.3:3128 | sudo nft -c -f -`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			at := make([]netip.AddrPort, 2+len(open))
			for i, text := range append([]string{gate, canary}, open...) {
				var err error
				if at[i], err = netip.ParseAddrPort(text); err != nil {
					return usageError("aisb ruleset", fmt.Errorf("%q is not IP:PORT", text))
				}
			}
			var text string
			var err error
			if len(open) > 0 || dns {
				text, err = sandbox.DirectRulesetText(at[2:], at[1], dns)
			} else {
				text, err = sandbox.RulesetText(at[0], at[1])
			}
			if err != nil {
				return usageError("aisb ruleset", err)
			}
			fmt.Fprint(u.Out, text)
			return nil
		},
	}
	cmd.Flags().StringVar(&gate, "gate", sandbox.HostLoopback.String()+":3128", "the gate at `IP:PORT`")
	cmd.Flags().StringVar(&canary, "canary", sandbox.HostLoopback.String()+":3129", "the canary at `IP:PORT`")
	cmd.Flags().StringSliceVar(&open, "open", nil, "without a gate, `IP:PORT` open (repeatable)")
	cmd.Flags().BoolVar(&dns, "dns", false, "without a gate, podman's name server open")
	return cmd
}
