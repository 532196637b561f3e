package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// openControl opens the proof's listeners on the host's loopback, of both families
// where there are: what answers, and a canary that nobody may come to.
func (d *directSide) openControl(at *endpoints) error {
	at.key = make([]byte, 32)
	rand.Read(at.key) // never fails (crypto/rand)
	server := &http.Server{Handler: answerProof(at.key), ReadTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	server.SetKeepAlivesEnabled(false)
	for _, ip := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} {
		control, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
		if ip.To4() == nil && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			break // a host without IPv6
		}
		if err != nil {
			return fmt.Errorf("open the proof's listener: %w", err)
		}
		d.controls = append(d.controls, control)
		canary, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
		if err != nil {
			return fmt.Errorf("open the proof's listener: %w", err)
		}
		d.canaries = append(d.canaries, canary)
		at.canaries = append(at.canaries, mapped(canary))
		if to := mapped(control); to.Addr().Is6() {
			at.control6 = to
		} else {
			at.control = to
		}
		go func() { _ = server.Serve(control) }()
	}
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
