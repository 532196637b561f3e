package gate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Tokens are the passwords by which clients show that they may use a gate, in
// addition to being in the right place. Only digests are kept: all are of one
// length, so that comparing them takes the same time for every guess.
type Tokens struct{ sums [][sha256.Size]byte }

// Bounds of a token. The lower one keeps guessing hopeless at the rate that a
// gate can answer; the upper one is less than a line of the file has.
const (
	minToken = 16
	maxToken = 256
)

// ParseTokens reads one token a line; lines that begin with "#" are comments.
// Several lines let a token be replaced without a moment in which neither works.
func ParseTokens(text []byte) (*Tokens, error) {
	t := &Tokens{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) < minToken || len(line) > maxToken {
			return nil, fmt.Errorf("line %d: a token has %d to %d characters", n, minToken, maxToken)
		}
		for i := range len(line) {
			if line[i] <= ' ' || line[i] >= 0x7f {
				return nil, fmt.Errorf("line %d: a token has printable ASCII characters alone", n)
			}
		}
		t.sums = append(t.sums, sha256.Sum256([]byte(line)))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.sums) == 0 {
		return nil, errors.New("there is no token in it")
	}
	return t, nil
}

// match compares a password with every token, whichever is the first to match.
func (t *Tokens) match(password string) bool {
	sum, found := sha256.Sum256([]byte(password)), 0
	for i := range t.sums {
		found |= subtle.ConstantTimeCompare(sum[:], t.sums[i][:])
	}
	return found == 1
}

// SetTokens replaces the tokens that clients must have one of; nil asks for
// none. Tunnels that are open stay.
func (g *Gate) SetTokens(t *Tokens) { g.tokens.Store(t) }

// unauthorized is the answer to a request without a token where one is needed,
// and nil for all others. It says nothing of the policy.
func (g *Gate) unauthorized(h *head) *refusal {
	t := g.tokens.Load()
	if t == nil {
		return nil
	}
	why := "this gate asks for a token: http://aisb:TOKEN@HOST:PORT"
	if password, given := h.password(); given {
		if t.match(password) {
			return nil
		}
		why = "the token is not one of this gate's"
	}
	return &refusal{reason: policy.ClientNotAllowed, status: http.StatusProxyAuthRequired, what: h.method, why: why}
}

// password is what the client shows: that of Basic (RFC 7617). The user name
// says nothing here. A head with two such fields shows none: which one would
// count?
func (h *head) password() (password string, given bool) {
	value := ""
	for _, f := range h.fields {
		if strings.EqualFold(f.name, "Proxy-Authorization") {
			if given {
				return "", true
			}
			value, given = f.value, true
		}
	}
	scheme, encoded, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "basic") {
		return "", given
	}
	both, err := base64.StdEncoding.DecodeString(strings.TrimLeft(encoded, " "))
	if err != nil {
		return "", given
	}
	_, password, _ = strings.Cut(string(both), ":")
	return password, given
}
