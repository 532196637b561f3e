package main

import (
	"errors"
	"fmt"
	"os"
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
	more, err := o.presets.linesWithoutImage()
	if err != nil {
		return nil, nil, err
	}
	p, warnings, err := policy.Parse(append(allow, more...), deny, policy.Options{AllowAllNames: o.allowAll})
	if err != nil {
		return nil, nil, gateRuleError(err)
	}
	return p, warnings, nil
}

// reread reads the rules again. A file that is none any more is refused: a pipe
// would be empty the second time, or be waited for while nobody hears a signal.
func (o *policyOptions) reread() (*policy.Policy, []policy.Warning, error) {
	for _, name := range slices.Concat(o.allowFile, o.denyFile) {
		info, err := os.Stat(name)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: it is no plain file", name)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return o.policy()
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
	code, hints := exitConfig, []string(nil)
	for _, one := range unjoined(err) {
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
	if hints == nil {
		hints = []string{"leave the rule out; 'aisb gate --help' says what a rule may be"}
	}
	return &exitError{code: code, err: someErrors(err), hint: strings.Join(hints, "\n")}
}

// someErrors are the first of several, and how many more there are.
func someErrors(err error) ruleErrors {
	all := slices.Clone(unjoined(err))
	if more := len(all) - maxRuleErrors; more > 0 {
		all = append(all[:maxRuleErrors], fmt.Errorf("and %d more", more))
	}
	return all
}

// ruleErrors are several: a text in one line, where they can't have one each.
type ruleErrors []error

func (e ruleErrors) Error() string {
	var texts []string
	for _, one := range e {
		texts = append(texts, one.Error())
	}
	return strings.Join(texts, "; ")
}

func (e ruleErrors) Unwrap() []error { return e }

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
