package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/aisb-dev/aisb/gate/policy"
)

// expectation is a line of check -f.
type expectation struct {
	line   int
	allow  bool
	target policy.Target
}

// parseExpectations reads "allow HOST[:PORT]" and "deny HOST[:PORT]", one a
// line. It returns all errors, each with file and line.
func parseExpectations(name string, r io.Reader) ([]expectation, error) {
	var list []expectation
	var errs []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#") // no host has one
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 || words[0] != "allow" && words[0] != "deny" {
			errs = append(errs, fmt.Errorf(`%s:%d: %q is not "allow HOST[:PORT]" or "deny HOST[:PORT]"`, name, n, strings.TrimSpace(text)))
			continue
		}
		target, err := parseChecked(words[1])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
			continue
		}
		list = append(list, expectation{n, words[0] == "allow", target})
	}
	if err := lines.Err(); err != nil {
		if place, ok := errors.AsType[*fs.PathError](err); ok {
			err = place.Err // it has the name
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	if len(errs) == 0 && len(list) == 0 {
		errs = append(errs, fmt.Errorf("%s: there is no line to check", name))
	}
	return list, errors.Join(errs...)
}

// readExpectations reads the file of -f.
func (o *checkOptions) readExpectations() ([]expectation, error) {
	name, in := o.file, io.Reader(os.Stdin)
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, &exitError{code: exitConfig, err: err, hint: `name a file with lines such as "allow example.com:443"`}
		}
		defer f.Close()
		in = f
	}
	list, err := parseExpectations(name, in)
	if err != nil {
		return nil, &exitError{code: exitConfig, err: someErrors(err), hint: "see 'aisb check --help'"}
	}
	return list, nil
}

// outcome is a line of check -f and what became of it.
type outcome struct {
	Line   int    `json:"line"`
	Expect string `json:"expect"` // allow or deny
	OK     bool   `json:"ok"`
	checked
}

// checkFile judges every line and says which are not as they should be.
func (o *checkOptions) checkFile(ctx context.Context, u *ui) error {
	list, err := o.readExpectations()
	if err != nil {
		return err
	}
	j, err := o.judge(u)
	if err != nil {
		return err
	}
	var wrong []outcome
	encoder := jsonEncoder(u.Out)
	for _, e := range list {
		c, err := j(ctx, e.target)
		if err != nil {
			return err
		}
		out := outcome{Line: e.line, Expect: "deny", OK: e.allow == c.Allow, checked: c}
		if e.allow {
			out.Expect = "allow"
		}
		if !out.OK {
			wrong = append(wrong, out)
		}
		if o.json {
			if err := encoder.Encode(out); err != nil {
				return err
			}
		}
	}
	if !o.json {
		if err := printOutcomes(u, wrong, len(list)); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return &exitError{code: 1}
	}
	return nil
}

// printOutcomes prints those that are wrong, and how many there were.
func printOutcomes(u *ui, wrong []outcome, all int) error {
	if len(wrong) == 0 {
		_, err := fmt.Fprintf(u.Out, "%d checked, all as expected\n", all)
		return err
	}
	w := tabwriter.NewWriter(u.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LINE\tHOST\tEXPECTED\tIS\tREASON\tRULE")
	for _, o := range wrong {
		is, rule := "deny", "-"
		if o.Allow {
			is = "allow"
		}
		if o.Rule != "" {
			rule = o.Rule
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", o.Line, hostPort(o.Host, o.Port), o.Expect, is, o.Reason, printable(rule))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(u.Out, "%d checked, %d not as expected\n", all, len(wrong))
	return err
}
