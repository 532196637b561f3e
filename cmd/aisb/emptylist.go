package main

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/trust"
)

var errEmptyList = errors.New("the allowlist is empty: the sandbox could reach nothing")

// emptyList refuses an allowlist without rules, and names the ways out, first why keys
// open nothing.
func (o runOptions) emptyList(p *prepared) error {
	misplaced := ""
	if slices.ContainsFunc(o.argv, func(a string) bool { return strings.HasPrefix(a, "--allow") }) {
		misplaced = "--allow stands after the command and so belongs to it: put it before\n"
	}
	unread := ""
	if o.settings != nil && o.settings.untrusted() != "" {
		unread = "look at what " + trust.ProjectName + " would open and approve it: aisb config trust\n"
	}
	return &exitError{
		code: exitUsage,
		err:  errEmptyList,
		hint: strings.Join(append(p.planted, misplaced), "\n") + unread + o.keyHint(os.Getenv) + o.commandKeyHint(p) + "allow what it needs: --allow HOST, --allow-file FILE or --preset NAME\n" +
			"or run it without any network: --net none\n" +
			"or without a fence, if you must: --net full",
	}
}
