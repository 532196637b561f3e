package main

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox"
)

func newRulesetCmd(u *ui) *cobra.Command {
	var gate string
	var canaries, open []string
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
			var at []netip.AddrPort
			for _, text := range slices.Concat([]string{gate}, canaries, open) {
				a, err := netip.ParseAddrPort(text)
				if err != nil {
					return usageError("aisb ruleset", fmt.Errorf("%q is not IP:PORT", text))
				}
				at = append(at, a)
			}
			probed, opened := at[1:1+len(canaries)], at[1+len(canaries):]
			var text string
			var err error
			if len(open) > 0 || dns {
				text, err = sandbox.DirectRulesetText(opened, probed, dns)
			} else {
				text, err = sandbox.RulesetText(at[0], probed...)
			}
			if err != nil {
				return usageError("aisb ruleset", err)
			}
			fmt.Fprint(u.Out, text)
			return nil
		},
	}
	cmd.Flags().StringVar(&gate, "gate", sandbox.HostLoopback.String()+":3128", "the gate at `IP:PORT`")
	cmd.Flags().StringSliceVar(&canaries, "canary", []string{sandbox.HostLoopback.String() + ":3129", "[" + sandbox.HostLoopback6.String() + "]:3129"},
		"a canary at `IP:PORT`, one of each family (repeatable)")
	cmd.Flags().Lookup("canary").DefValue = "[]" // too long for a screen
	cmd.Flags().StringSliceVar(&open, "open", nil, "without a gate, `IP:PORT` open (repeatable)")
	cmd.Flags().BoolVar(&dns, "dns", false, "without a gate, podman's name server open")
	return cmd
}
