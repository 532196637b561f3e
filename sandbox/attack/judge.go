//go:build linux

package attack

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Result is an attack with what came of it.
type Result struct {
	ID      string  `json:"id"`
	Row     string  `json:"row"` // of the threat table, or "control"
	Try     string  `json:"try"`
	Seen    string  `json:"seen"`
	Verdict Verdict `json:"verdict"`
	Millis  int64   `json:"ms,omitempty"`
}

// Report is what the battery found.
type Report struct {
	Verdict  string   `json:"verdict"` // held, got-out or broken
	Broken   []string `json:"broken,omitempty"`
	Held     int      `json:"held"`
	Out      int      `json:"got_out"`
	Unknown  int      `json:"unknown"`
	Attacks  []Result `json:"attacks"`
	Controls []Result `json:"controls"`
}

// The verdicts of a whole battery. A broken one shows nothing.
const (
	AllHeld = "held"
	SomeOut = "got-out"
	Broken  = "broken"
)

// Judge joins the two views: what the attacks saw, and what came to the host's
// canaries by the attack that sent it. extra are findings of the host's own,
// for attacks without Run. A visit at a canary is a way out, whatever the attack
// says of itself. It is pure.
func Judge(answers []Answer, visits []Visit, extra map[string]Finding) Report {
	by := map[string]Answer{}
	done := false
	for _, a := range answers {
		by[a.ID] = a
		done = done || a.Done
	}
	r := Report{Verdict: AllHeld}
	if !done {
		r.Broken = append(r.Broken, "the part inside ended before its end")
	}
	ids := map[string]bool{}
	for _, a := range Battery() {
		ids[a.ID] = true
		res := Result{ID: a.ID, Row: a.Row, Try: a.Try}
		answer, ok := by[a.ID]
		finding := answer.Finding
		res.Millis = answer.Millis
		if f, on := extra[a.ID]; on {
			finding, ok = f, true
		}
		if !ok {
			finding = unknown("no finding came")
		}
		for _, v := range visits {
			if v.ID == a.ID {
				finding = got("%s saw it; inside: %s", v.Where, finding.Seen)
				break
			}
		}
		res.Verdict, res.Seen = finding.Verdict, finding.Seen
		r.Attacks = append(r.Attacks, res)
	}
	r.strangers(visits, ids)
	r.controls(by)
	r.count()
	return r
}

// strangers are visits that no attack of the battery's owns up to.
func (r *Report) strangers(visits []Visit, ids map[string]bool) {
	i := slices.IndexFunc(r.Attacks, func(a Result) bool { return a.ID == "canaries" })
	if i < 0 {
		return
	}
	for _, v := range visits {
		if !ids[v.ID] {
			r.Attacks[i].Verdict, r.Attacks[i].Seen = Out, fmt.Sprintf("%s was reached, by %q", v.Where, v.ID)
			return
		}
	}
}

func (r *Report) controls(by map[string]Answer) {
	for _, c := range Controls() {
		a, ok := by[c.ID]
		if !ok {
			a.Finding = unknown("no finding came")
		}
		r.Controls = append(r.Controls, Result{ID: c.ID, Row: c.Row, Try: c.Try, Seen: a.Seen, Verdict: a.Verdict, Millis: a.Millis})
		if a.Verdict != Out {
			r.Broken = append(r.Broken, fmt.Sprintf("what may be done fails: %s: %s", c.Try, a.Seen))
		}
	}
}

func (r *Report) count() {
	for _, a := range r.Attacks {
		switch a.Verdict {
		case Held:
			r.Held++
		case Out:
			r.Out++
		default:
			r.Unknown++
		}
	}
	switch {
	case r.Out > 0: // one way out is one, whatever else is broken
		r.Verdict = SomeOut
	case len(r.Broken) > 0:
		r.Verdict = Broken
	}
}

// rows are the threat table's, by what is attacked.
var rows = map[string]string{
	"T1": "edit or delete outside the project", "T2": "read the user's secrets", "T3": "steal the host's environment",
	"T4": "secrets through the process list", "T5": "egress past the gate", "T6": "through the gate to what isn't listed",
	"T7": "weaken the ruleset or gain rights", "T8": "fresh namespaces", "T9": "setuid programs",
	"T10": "the host's other services", "T11": "use up the host", "T12": "write to the system and its packages",
	"T13": "credentials left behind", "T14": "a silently open start", "T15": "plant something the host will run",
	"T16": "widen the policy for the next run", "T17": "use another's gate", "T18": "data in names and in tunnels",
	"T19": "sockets in the tree", "T20": "links to the host's files", "T21": "escape sequences to the terminal",
}

// Brief is the report without the attacks that were held; the numbers stay.
func (r Report) Brief() Report {
	r.Attacks = slices.DeleteFunc(slices.Clone(r.Attacks), func(a Result) bool { return a.Verdict == Held })
	return r
}

// String is the report as a table, a block for each row.
func (r Report) String() string {
	var b strings.Builder
	row, wide := "", 0
	for _, a := range r.Attacks {
		wide = max(wide, len(a.ID))
	}
	for _, a := range r.Attacks {
		if a.Row != row {
			row = a.Row
			fmt.Fprintf(&b, "%s  %s\n", row, rows[row])
		}
		fmt.Fprintf(&b, "  %-7s  %-*s  %s: %s\n", a.Verdict, wide, a.ID, a.Try, cutAt(a.Seen, 100))
	}
	for _, why := range r.Broken {
		fmt.Fprintf(&b, "broken: %s\n", why)
	}
	fmt.Fprintf(&b, "%d attacks: %d held, %d got out, %d unknown; %d controls\n", r.Held+r.Out+r.Unknown, r.Held, r.Out, r.Unknown, len(r.Controls))
	return b.String()
}

// cutAt shortens at a character's boundary.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
