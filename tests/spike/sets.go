//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
)

// claimSet is what a sandbox without a gate rests on: its open addresses are kept up
// to date from outside.
func claimSet(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	spec := netpolicy.Spec{Direct: &netpolicy.Direct{}}
	from, err := netpolicy.Render(spec)
	if err != nil {
		return err
	}
	to, err := netpolicy.Render(spec.WithPeers([]netip.AddrPort{netip.MustParseAddrPort("198.51.100.7:443")}))
	if err != nil {
		return err
	}
	if _, err := t.sh(b, "nft -f - <<'END'\n"+from.String()+"END\n"); err != nil {
		return err
	}
	_, files, err := b.ask(question{Op: opNetlink})
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	defer files[0].Close()
	if err := unix.Bind(int(files[0].Fd()), &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	w, err := nft.Watch(files[0])
	if err != nil {
		return err
	}
	generation, err := w.Update(from, to)
	if err != nil {
		return err
	}
	t.saw("uid %d on the host has added an element: generation %d", os.Getuid(), generation)
	if _, err := t.sh(b, "nft list set inet aisb open4 | grep -F '198.51.100.7 . 443'; nft add element inet aisb open4 '{ 198.51.100.66 . 443 }'"); err != nil {
		return err
	}
	_, err = w.Update(to, from)
	t.saw("after a change of the container's root: %v", err)
	if !errors.Is(err, nft.ErrMismatch) {
		return errors.New("a change of another's was overlooked")
	}
	return nil
}
