package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// policy reads the rules. The error's status tells flags from files.
func (o *policyOptions) policy() (*policy.Policy, []policy.Warning, error) {
	allow, err := gateLines(o.allow, "--allow", o.allowFile)
	if err != nil {
		return nil, nil, err
	}
	deny, err := gateLines(o.deny, "--deny", o.denyFile)
	if err != nil {
		return nil, nil, err
	}
	p, warnings, err := policy.Parse(allow, deny, policy.Options{AllowAllNames: o.allowAll})
	if err != nil {
		return nil, nil, gateRuleError(err)
	}
	return p, warnings, nil
}

// gateLines are the rules of a flag and of files, with where each came from.
func gateLines(rules []string, flag string, files []string) ([]policy.Line, error) {
	var lines []policy.Line
	for _, r := range rules {
		lines = append(lines, policy.Line{Text: r, Origin: flag})
	}
	for _, name := range files {
		more, err := policy.ReadFile(name)
		if err != nil {
			return nil, &exitError{code: exitConfig, err: err, hint: "name a file that you can read, with one rule a line"}
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// maxRuleErrors are shown at once.
const maxRuleErrors = 5

// gateRuleError shows what is wrong with each rule. A rule of a flag is a
// wrong call, one of a file a wrong file.
func gateRuleError(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	code, texts, hints := exitConfig, []string(nil), []string(nil)
	for _, one := range all {
		texts = append(texts, one.Error())
		var e *policy.RuleError
		if !errors.As(one, &e) {
			continue
		}
		if strings.HasPrefix(e.Origin, "--") {
			code = exitUsage
		}
		if e.Suggestion != "" && len(hints) < maxRuleErrors && !slices.Contains(hints, e.Suggestion) {
			hints = append(hints, e.Suggestion)
		}
	}
	if len(texts) > maxRuleErrors {
		texts = append(texts[:maxRuleErrors], fmt.Sprintf("and %d more", len(texts)-maxRuleErrors))
	}
	if hints == nil {
		hints = []string{"leave the rule out; 'aisb gate --help' says what a rule may be"}
	}
	return &exitError{code: code, err: errors.New(strings.Join(texts, "; ")), hint: strings.Join(hints, "\n")}
}

// servers are the name servers given.
func (o *policyOptions) servers() ([]resolve.Server, error) {
	var servers []resolve.Server
	for _, text := range o.resolver {
		s, err := resolve.ParseServer(text)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("--resolver: %w", err), hint: "for example --resolver 9.9.9.9 or --resolver tls://9.9.9.9"}
		}
		servers = append(servers, s)
	}
	return servers, nil
}
