package entry

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// strangers is the hint where others have been at the packet filter.
const strangers = "something beside aisb writes packet filter rules into new network namespaces: look for hooks of the container runtime"

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
	e.at("before")
	if err := nft.Apply(e.rules); err != nil {
		hint := "aisb doctor says whether this kernel lets users filter packets in their own namespaces (nf_tables, CAP_NET_ADMIN)"
		if errors.Is(err, unix.EEXIST) {
			hint = strangers
		}
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitFence, err, hint})
	}
	if f := e.tell(handshake.Stage{Stage: handshake.Applied}); f != nil {
		return f
	}
	e.at("applied")
	var err error
	if e.counted, err = nft.Counters(e.rules); err != nil { // reads back and compares
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitProof, err, strangers})
	}
	e.at("verified")
	watch, err := nft.Socket()
	if err != nil {
		return e.unfenced(&failure{handshake.Fenced, handshake.ExitFence, err, ""})
	}
	defer watch.Close() // in here nobody has any use for it
	return e.tell(handshake.Stage{Stage: handshake.Fenced}, watch)
}

// listen makes the gate's listener in here and hands it to aisb, which gives it
// to the gate: the only way out is a socket that the gate holds the other side
// of, and no packet leaves this namespace.
func (e *entry) listen() *failure {
	if e.cfg.Fence == nil || e.cfg.Fence.Listen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", e.cfg.Fence.Listen)
	if err != nil {
		return &failure{handshake.Listening, handshake.ExitFence, fmt.Errorf("make the gate's listener: %w", err),
			"something has taken the port before: look for hooks of the container runtime"}
	}
	defer ln.Close() // the copies outside stay
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		return &failure{handshake.Listening, handshake.ExitFence, fmt.Errorf("make the gate's listener: %w", err), ""}
	}
	defer file.Close()
	return e.tell(handshake.Stage{Stage: handshake.Listening}, file)
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
