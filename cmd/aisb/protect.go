package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/protect"
)

// plantedShown bounds the receipt: the list has the rest.
const plantedShown = 10

// protectOptions are the flags about what the host would later execute.
type protectOptions struct {
	protect, noProtect []string
	onNew              string
}

func (o *protectOptions) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.protect, "protect", nil, "make `PATH` of the project read-only")
	f.StringArrayVar(&o.noProtect, "no-protect", nil, "leave `PATH` writable, though the host may run it")
	f.StringVar(&o.onNew, "on-new-exec-config", "", "what becomes of new files that the host may run:\n`X` is report (the default) or quarantine")
}

// checkNew reads what to do with what is new.
func (o protectOptions) checkNew(p *prepared) error {
	switch o.onNew {
	case "", "report": // with no default to be shown among the settings
	case "quarantine":
		p.spec.Quarantine = true
	default:
		return usageError("aisb run", fmt.Errorf("--on-new-exec-config %q is none of report, quarantine", o.onNew))
	}
	return nil
}

// protection hands on what the plan of the mounts protects and watches.
func (o protectOptions) protection(p *prepared) {
	p.spec.Protected, p.spec.Watch = p.plan.Protected, p.plan.Watch
	for _, path := range o.noProtect {
		p.warnings = append(p.warnings, fmt.Sprintf("--no-protect: the agent can change %q, which the host may execute", path))
	}
}

// plantedLines tell what is new or other of what the host would execute.
func plantedLines(u *ui, p sandbox.Planted) {
	shown := protect.MostTelling(p.Changes, plantedShown)
	for _, c := range shown {
		u.warnf("%s", plantedLine(p, c))
	}
	if more := len(p.Changes) - len(shown); more > 0 {
		u.warnf("and %d more of these: see %s", more, p.List)
	}
	for _, m := range p.Moved {
		if m.Err != nil {
			u.warnf("%q could not be moved out of the project: %v", m.Path, m.Err)
		}
	}
	if len(p.Changes) > 0 && p.Aside == "" {
		u.notef("look at these before you run anything in the project; --on-new-exec-config quarantine moves what is new out of it")
	}
	if p.Cut {
		u.warnf("the project was not looked through to its end for what the host may execute (%d names seen)", p.Names)
	}
	if p.Closed > 0 {
		u.warnf("%s in the project can't be looked at", plural(p.Closed, "directory or file", "directories and files"))
	}
}

// plantedLine is about one thing.
func plantedLine(p sandbox.Planted, c protect.Change) string {
	what := "changed"
	if c.New {
		what = "new"
	}
	line := fmt.Sprintf("%s: %s (%s)", what, brief(printable(c.Path)), c.Rule.Why)
	if c.Kind == protect.Link {
		line += ", a symbolic link"
	}
	if len(c.Keys) > 0 {
		const most = 5
		var keys []string
		for _, key := range c.Keys[:min(len(c.Keys), most+1)] {
			keys = append(keys, brief(printable(key)))
		}
		more := ""
		if len(keys) > most {
			keys, more = keys[:most], fmt.Sprintf(" and %d more", len(c.Keys)-most)
		}
		line += ", sets " + strings.Join(keys, ", ") + more
	}
	if !p.Kept(c) {
		line += ", moved to " + p.Aside
	}
	return line
}

// briefMost is what a name may take of a line: an agent that chooses it could else move
// all other lines off the screen.
const briefMost = 200

// brief leaves out the middle of what is too long. Text is printable.
func brief(text string) string {
	runes := []rune(text)
	if len(runes) <= briefMost {
		return text
	}
	return string(runes[:briefMost/2]) + "[...]" + string(runes[len(runes)-briefMost/2:])
}
