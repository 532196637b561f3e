package entry

import (
	"os/exec"
	"testing"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// TestProberGone: a child that ends badly after a good account is a start that goes no
// further, unless that was wanted.
func TestProberGone(t *testing.T) {
	for _, tt := range []struct {
		ends   string
		anyway bool
		fails  bool
	}{{"true", false, false}, {"false", false, true}, {"false", true, false}} {
		conn, peer, err := fdmsg.Pair()
		if err != nil {
			t.Fatal(err)
		}
		peer.Close()
		cmd := exec.Command(tt.ends)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		e := &entry{prober: &prober{cmd, conn}}
		e.cfg.AllowUnenforced = tt.anyway
		switch f := e.proberGone(); {
		case (f != nil) != tt.fails:
			t.Errorf("%+v: %v", tt, f)
		case f != nil && (f.status != handshake.ExitProof || f.hint == ""):
			t.Errorf("%+v: %+v", tt, f)
		}
		if e.proberGone() != nil {
			t.Errorf("%+v: it is waited for twice", tt)
		}
	}
}
