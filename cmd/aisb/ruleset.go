package main

import (
	"cmp"
	"fmt"
	"net/netip"

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
			at, err := addrPorts("--gate", []string{gate})
			probed, err2 := addrPorts("--canary", canaries)
			opened, err3 := addrPorts("--open", open)
			if err := cmp.Or(err, err2, err3); err != nil {
				return err
			}
			var text string
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
	canaries = []string{sandbox.HostLoopback.String() + ":3129", "[" + sandbox.HostLoopback6.String() + "]:3129"}
	listVar(cmd.Flags(), &canaries, "canary", "a canary at `IP:PORT`, one of each family (repeatable)")
	cmd.Flags().Lookup("canary").DefValue = "" // too long for a screen
	listVar(cmd.Flags(), &open, "open", "without a gate, `IP:PORT` open (repeatable)")
	cmd.Flags().BoolVar(&dns, "dns", false, "without a gate, podman's name server open")
	return cmd
}

// addrPorts reads the values of a flag.
func addrPorts(flag string, texts []string) ([]netip.AddrPort, error) {
	var at []netip.AddrPort
	for _, text := range texts {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("%s %q is not IP:PORT", flag, text),
				hint: fmt.Sprintf("for example %s 192.0.2.1:443", flag)}
		}
		at = append(at, a)
	}
	return at, nil
}
