package entry

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// fence installs the ruleset and reads it back. Without a fence (--net full)
// only loopback comes up.
func (e *entry) fence() *failure {
	if err := loopbackUp(); err != nil {
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitFence, err,
			"the container needs the capability NET_ADMIN in its own network namespace"})
	}
	if e.cfg.Fence == nil {
		return nil
	}
	e.spoil("before")
	if err := nft.Apply(e.rules); err != nil {
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitFence, err,
			"aisb doctor says whether this kernel lets users filter packets in their own namespaces (nf_tables, CAP_NET_ADMIN)"})
	}
	if f := e.tell(handshake.Stage{Stage: handshake.Applied}); f != nil {
		return f
	}
	e.spoil("applied")
	if e.afterApply != nil {
		e.afterApply()
	}
	var err error
	if e.counted, err = nft.Counters(e.rules); err != nil { // reads back and compares
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitProof, err,
			"something beside aisb writes packet filter rules into new network namespaces: look for hooks of the container runtime"})
	}
	e.spoil("verified")
	return e.tell(handshake.Stage{Stage: handshake.Fenced})
}

// unfenced lets a failed fence or proof pass when the user said so
// (--allow-unenforced).
func (e *entry) unfenced(f *failure) *failure {
	if !e.cfg.AllowUnenforced {
		return f
	}
	e.unheld = f.err.Error()
	return e.tell(handshake.Stage{Stage: f.stage, Warning: e.unheld})
}

// loopbackUp brings lo up: without a network nobody else does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req)
	}
	if err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	if req.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	return nil
}
