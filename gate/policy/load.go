package policy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Line is a rule as it was written, and where.
type Line struct {
	Text   string
	Origin string
}

// Options changes what Parse accepts.
type Options struct {
	AllowAllNames bool // the rule "*" may be used
}

// Warning is something that a policy's author may not have meant.
type Warning struct {
	Origin string
	Text   string
}

// String is the warning as one line.
func (w Warning) String() string { return w.Origin + ": " + w.Text }

// maxLine bounds a line of a rule file.
const maxLine = 4096

// ReadFile reads the rules of a file, see ParseLines.
func ReadFile(name string) ([]Line, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	return ParseLines(name, f)
}

// ParseLines reads one rule a line. A "#" at the beginning of a line or after
// a space begins a comment. name is for the origins.
func ParseLines(name string, r io.Reader) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		text := s.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff") // editors on Windows
		}
		if text = strings.TrimSpace(stripComment(text)); text != "" {
			lines = append(lines, Line{Text: text, Origin: fmt.Sprintf("%s:%d", name, n)})
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, n+1, maxLine)
		}
		return nil, unreadable(name, err)
	}
	return lines, nil
}

// unreadable is the error of a file that can't be read, with its name quoted, which may
// be empty.
func unreadable(name string, err error) error {
	if place, ok := errors.AsType[*fs.PathError](err); ok {
		err = place.Err
	}
	return fmt.Errorf("read rules: %q: %w", name, err)
}

func stripComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}

// Parse makes a policy of rules. The error joins one *RuleError for each rule
// that is wrong. Of the rules nothing is left out: with any error there is no
// policy.
func Parse(allow, deny []Line, o Options) (*Policy, []Warning, error) {
	p := &Policy{allowed: newIndex(len(allow), false), denied: newIndex(len(deny), true)}
	var errs []error
	load := func(lines []Line, isDeny bool, into *index) {
		for _, l := range lines {
			r, err := ParseRule(l, isDeny)
			if err == nil && r.All && !isDeny && !o.AllowAllNames {
				err = &RuleError{Rule: r.Text, Origin: r.Origin,
					Problem:    "allows every public name",
					Suggestion: "add --allow-all-names if that is meant"}
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			into.add(r)
		}
	}
	load(allow, false, &p.allowed)
	load(deny, true, &p.denied)
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return p, p.warnings(), nil
}

// warnings looks for rules that do less or more than they seem to.
func (p *Policy) warnings() []Warning {
	var out []Warning
	warn := func(r *Rule, format string, args ...any) {
		out = append(out, Warning{Origin: r.Origin, Text: fmt.Sprintf("rule %q ", r.Text) + fmt.Sprintf(format, args...)})
	}
	for i := range p.allowed.rules {
		r := p.allowed.rules[i]
		if shadow := p.denied.shadow(r); shadow != nil {
			warn(r, "allows nothing: %s denies it (%s)", shadow.Text, shadow.Origin)
			continue
		}
		if r.Prefix.IsValid() && broad(r.Prefix) {
			warn(r, "covers a great part of all addresses, and whatever is spoken to them")
		}
		if !r.Wildcard || r.Private && isLocalName(r.Name, true) {
			continue
		}
		if suffix, _ := publicsuffix.PublicSuffix(r.Name); suffix == r.Name {
			warn(r, "covers everything below %s, under which anybody can register a name", r.Name)
		} else if p.apexMissing(r) {
			warn(r, "does not allow %s itself; add %q if that is meant", r.Name, strings.TrimPrefix(r.Text, "*."))
		}
	}
	return out
}

// broad reports ranges of public addresses that no one service has: the largest
// given to anybody are a /8 and a /12.
func broad(p netip.Prefix) bool {
	least := 8
	if p.Addr().Is6() {
		least = 12
	}
	return p.Bits() < least && rangeClass(p) == Public
}

// apexMissing reports that no rule says anything of the name above a wildcard, at
// a port of the wildcard's.
func (p *Policy) apexMissing(r *Rule) bool {
	port := r.Port
	if port == 0 {
		port = portHTTPS
	}
	d := p.Decide(Target{Host: r.Name, Port: port})
	return !d.Allow && d.Reason != DeniedRule
}
