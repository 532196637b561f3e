package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// openControl opens the two listeners of the proof on the host's loopback.
func (d *directSide) openControl(at *endpoints) error {
	at.key = make([]byte, 32)
	rand.Read(at.key) // never fails (crypto/rand)
	var canary netip.AddrPort
	for _, l := range []struct {
		listener **net.TCPListener
		addr     *netip.AddrPort
	}{{&d.control, &at.control}, {&d.canary, &canary}} {
		ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return fmt.Errorf("open the proof's listener: %w", err)
		}
		*l.listener = ln
		*l.addr = netip.AddrPortFrom(HostLoopback, ln.Addr().(*net.TCPAddr).AddrPort().Port())
	}
	at.peers, at.canaries = append(at.peers, at.control), []netip.AddrPort{canary}
	server := &http.Server{Handler: answerProof(at.key), ReadTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(d.control) }()
	return nil
}

// answerProof shows who it is to those who ask, as a gate does: it holds the run's key.
func answerProof(key []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(r.Header.Get("X-Aisb-Nonce")))
		w.Header().Set("X-Aisb-Proof", hex.EncodeToString(mac.Sum(nil)))
		w.WriteHeader(http.StatusNoContent)
	})
}
