// Package wire plays vectors of raw bytes against a real `aisb gate`, between
// two network namespaces that lead nowhere, so that what the gate dials is seen
// whatever its address is.
package wire

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Vector is one case: how the gate is started, what a client says and gets, and
// what the outside world may see of it.
//
// A file holds vectors one after the other. Each begins with "name:", has keys
// of the same form, and after a line "--" the client's steps:
//
//	> TEXT            send
//	hello NAME [N]    send a TLS ClientHello for NAME ("-" for none), in pieces of N bytes
//	< STATUS          an answer comes whose status line begins so, after HTTP/1.1
//	body TEXT         the answer's body has TEXT in it
//	= TEXT            these bytes come next
//	end               send no more
//	closed            nothing comes any more, the connection ends
//
// TEXT has Go's escapes. A line ends a TEXT without adding a byte to it.
type Vector struct {
	Name    string
	Allow   []string
	Deny    []string
	DNS     map[string][]string // addresses by name
	Dials   []string            // all connections that reach the outside, in any order
	Queries []string            // all names asked for, each once
	Origin  []string            // texts that the origins got, in any order
	Absent  []string            // texts that no origin got
	Event   string              // an event and reason in the log: "deny not-listed"
	Steps   []Step
}

// Step is one line of the client's part.
type Step struct {
	Line int
	Verb string
	Text string
	N    int // of hello
}

// Parse reads the vectors of a file.
func Parse(r io.Reader) ([]*Vector, error) {
	var all []*Vector
	var v *Vector
	steps := false
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		var err error
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "name:"):
			v = &Vector{Name: strings.TrimSpace(line[5:]), DNS: map[string][]string{}}
			all, steps = append(all, v), false
		case v == nil:
			err = fmt.Errorf("a vector begins with a name")
		case line == "--":
			steps = true
		case steps:
			err = v.step(n, line)
		default:
			err = v.key(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return all, lines.Err()
}

func (v *Vector) key(line string) error {
	key, value, found := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if !found || value == "" {
		return fmt.Errorf("%q is not KEY: VALUE", line)
	}
	words := strings.Fields(value)
	switch key {
	case "allow":
		v.Allow = append(v.Allow, words...)
	case "deny":
		v.Deny = append(v.Deny, words...)
	case "dns":
		v.DNS[words[0]] = append(v.DNS[words[0]], words[1:]...)
	case "dials":
		v.Dials = append(v.Dials, words...)
	case "queries":
		v.Queries = append(v.Queries, words...)
	case "event":
		v.Event = value
	case "origin", "absent":
		text, err := unescape(value)
		if err != nil {
			return err
		}
		if key == "origin" {
			v.Origin = append(v.Origin, text)
		} else {
			v.Absent = append(v.Absent, text)
		}
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

func (v *Vector) step(n int, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	s := Step{Line: n, Verb: verb, Text: rest}
	var err error
	switch verb {
	case ">", "=", "body":
		s.Text, err = unescape(rest)
	case "<", "end", "closed":
	case "hello":
		words := strings.Fields(rest)
		if len(words) == 2 {
			s.N, err = strconv.Atoi(words[1])
		}
		s.Text = words[0]
		if s.Text == "-" {
			s.Text = ""
		}
	default:
		err = fmt.Errorf("unknown step %q", verb)
	}
	v.Steps = append(v.Steps, s)
	return err
}

func unescape(s string) (string, error) {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		return "", fmt.Errorf("text %q: %w", s, err)
	}
	return text, nil
}
