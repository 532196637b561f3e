package entry

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// minKey is the least length of the proof's key in bytes.
const minKey = 16

// checkConfig refuses a configuration that leaves something open to a guess.
func checkConfig(c handshake.Config) error {
	switch {
	case c.Version != handshake.Version:
		return fmt.Errorf("version %d of the handshake, want %d", c.Version, handshake.Version)
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return errors.New("no command")
	case !path.IsAbs(string(c.Dir)):
		return fmt.Errorf("working directory %q is not absolute", c.Dir)
	case c.InsecureKeepRoot && (c.UID != 0 || c.GID != 0):
		return fmt.Errorf("uid %d and gid %d are not root's, which was to be kept", c.UID, c.GID)
	case !c.InsecureKeepRoot && (c.UID <= 0 || c.GID <= 0):
		return fmt.Errorf("uid %d or gid %d is root's", c.UID, c.GID)
	case !c.InsecureKeepRoot && (uint32(c.UID) != c.UserMap.Inside || uint32(c.GID) != c.GroupMap.Inside):
		return fmt.Errorf("uid %d and gid %d are not those that are to be the user's", c.UID, c.GID)
	}
	if err := checkStrings(c.Argv, c.Env); err != nil {
		return err
	}
	if c.Fence == nil {
		return nil
	}
	return checkFence(*c.Fence)
}

// checkStrings refuses what execve(2) can't pass on.
func checkStrings(argv []string, env [][]byte) error {
	for _, kv := range env {
		if name, _, ok := bytes.Cut(kv, []byte("=")); !ok || len(name) == 0 || bytes.IndexByte(kv, 0) >= 0 {
			return fmt.Errorf("malformed environment variable %q", name)
		}
	}
	for _, arg := range argv {
		if bytes.IndexByte([]byte(arg), 0) >= 0 {
			return fmt.Errorf("argument %q holds a zero byte", arg)
		}
	}
	return nil
}

// checkExec refuses a command that can't be meant.
func checkExec(x handshake.Exec) error {
	switch {
	case len(x.Argv) == 0 || x.Argv[0] == "":
		return errors.New("no command")
	case !path.IsAbs(string(x.Dir)):
		return fmt.Errorf("working directory %q is not absolute", x.Dir)
	}
	return checkStrings(x.Argv, x.Env)
}

// checkFence refuses a fence that couldn't be proved.
func checkFence(f handshake.Fence) error {
	if len(f.Policy.Probes) == 0 {
		return errors.New("a fence without probes can't be proved")
	}
	if f.Policy.Direct != nil || f.Proof.Control != "" {
		return checkDirect(f)
	}
	if len(f.Policy.Gates) == 0 && f.Listen == "" && f.Proof.Gate == "" {
		return nil
	}
	gate, err := netip.ParseAddrPort(f.Proof.Gate)
	switch {
	case err != nil:
		return fmt.Errorf("gate %q of the proof: %w", f.Proof.Gate, err)
	case f.Listen != "" && len(f.Policy.Gates) > 0:
		return errors.New("a gate inside and one outside")
	case f.Listen != "" && (f.Listen != f.Proof.Gate || !gate.Addr().IsLoopback()):
		return fmt.Errorf("gate's listener at %q, not at the proof's %q on loopback", f.Listen, f.Proof.Gate)
	case f.Listen == "" && !slices.Contains(f.Policy.Gates, gate):
		return fmt.Errorf("gate %q of the proof is not open", f.Proof.Gate)
	case len(f.Proof.Key) < minKey:
		return fmt.Errorf("key of the proof has %d bytes, want %d", len(f.Proof.Key), minKey)
	}
	return nil
}

// checkDirect refuses a fence without a gate in which nothing shows that what is open
// can be reached.
func checkDirect(f handshake.Fence) error {
	control, err := netip.ParseAddrPort(f.Proof.Control)
	switch {
	case err != nil:
		return fmt.Errorf("control %q of the proof: %w", f.Proof.Control, err)
	case len(f.Policy.Gates) > 0 || f.Listen != "" || f.Proof.Gate != "":
		return errors.New("a fence both with a gate and without")
	case f.Policy.Direct == nil || !slices.Contains(f.Policy.Direct.Peers, control):
		return fmt.Errorf("control %q of the proof is not open", f.Proof.Control)
	case len(f.Proof.Key) < minKey:
		return fmt.Errorf("key of the proof has %d bytes, want %d", len(f.Proof.Key), minKey)
	}
	return nil
}
