// Package history reads a gate's log and judges it by other rules. It opens
// no files and asks no network: callers do.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Line is one line of a log, see docs/gate-log.md.
type Line struct {
	Time   time.Time     `json:"ts"`
	Event  string        `json:"event"`
	ID     uint64        `json:"id"`
	Run    string        `json:"run"`
	Method string        `json:"method"`
	Host   string        `json:"host"`
	Port   uint16        `json:"port"`
	Reason policy.Reason `json:"reason"`
	Rule   string        `json:"rule"`
	Addr   string        `json:"addr"`
	SNI    string        `json:"sni"`
	Up     int64         `json:"up"`
	Down   int64         `json:"down"`
	MS     int64         `json:"ms"`
	Client string        `json:"client"`
}

// Target is what a line is about; false of lines that are about no host.
func (l Line) Target() (policy.Target, bool) {
	if l.Host == "" || l.Port == 0 {
		return policy.Target{}, false
	}
	text := l.Host
	if a, err := netip.ParseAddr(l.Host); err == nil && a.Is6() {
		text = "[" + l.Host + "]"
	}
	t, err := policy.ParseHost(text, l.Port)
	return t, err == nil && t.Port == l.Port
}

// maxLine is far above what a line can have.
const maxLine = 64 << 10

// errNoLog reports something else than a log.
var errNoLog = errors.New("it is no log of a gate: expected one JSON object with an event a line")

// Parse reads one line.
func Parse(text []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil || l.Event == "" {
		return Line{}, errNoLog
	}
	return l, nil
}

// Read calls do for each line. Lines that begin otherwise than JSON are what
// the gate and its service manager say to people: a journal has both. The last
// line may be cut off, since a gate can be killed; any other that makes no sense
// is an error, and so is a file in which there is no line of a log.
func Read(r io.Reader, do func(Line)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var bad error
	good, other := false, false
	for n := 1; lines.Scan(); n++ {
		if bad != nil {
			return bad
		}
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] != '{' {
			other = other || len(text) > 0
			continue
		}
		l, err := Parse(text)
		if err != nil {
			bad = fmt.Errorf("line %d: %w", n, err)
			continue
		}
		good = true
		do(l)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !good && (other || bad != nil) {
		return errNoLog
	}
	return nil
}
