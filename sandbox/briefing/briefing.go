// Package briefing writes what the agent is told of its sandbox: one short file
// that a harness reads among its own instructions. An agent that knows the limits
// asks for what it lacks, in place of trying ways round them. It is pure.
package briefing

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Net is how the sandbox reaches the network.
type Net string

// The ways.
const (
	Gate   Net = "gate"    // through the gate alone
	NoGate Net = "no-gate" // to the addresses of names
	None   Net = "none"
	Full   Net = "full"
)

// Facts are what there is to tell.
type Facts struct {
	Net   Net
	Allow []string // rules, as written
	Deny  []string

	Project         string // where the project is
	ProjectReadOnly bool
	Home            string
	HomeKept        bool     // what is in the home is there in the next run too
	ReadOnly        []string // paths in the project that can't be written
}

// Bounds of the file: it is read at every start of a harness, and by a model.
const (
	maxLines = 25
	maxList  = 400 // bytes of a list in one line
)

// Final is the sentence about refusals, word for word in every file of a sandbox
// that has a gate.
const Final = "`403 Blocked by aisb` is the user's policy and final"

// Render writes the file. The same facts give the same bytes.
func Render(f Facts) []byte {
	lines := []string{
		"# This sandbox (aisb)",
		"",
		"You work in a container that the user has fenced. Its limits are chosen, not faults: don't work round them.",
		"When one is in your way, say which, and what you would need; the user can change it for the next run.",
		"",
	}
	lines = append(lines, f.network()...)
	lines = append(lines, "")
	lines = append(lines, f.files()...)
	if git := f.git(); git != nil {
		lines = append(append(lines, ""), git...)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func (f Facts) network() []string {
	switch f.Net {
	case None:
		return []string{"## Network", "", "There is none. Work with what is here."}
	case Full:
		return []string{"## Network", "", "It is open."}
	case NoGate:
		return []string{"## Network", "",
			"Only these can be reached, by their names: " + list(f.Allow) + ".",
			"Everything else is refused at once, and no name is resolved: that is the user's policy and final. Don't try other ways."}
	}
	lines := []string{"## Network", "",
		"- All traffic goes through a gate, which the proxy variables name. It allows: " + list(f.Allow) + "."}
	if len(f.Deny) > 0 {
		lines = append(lines, "- It refuses, whatever allows it: "+list(f.Deny)+".")
	}
	return append(lines,
		"- "+Final+": don't retry, and look for no mirror or other way.",
		"- `aisb check HOST` says whether a host is allowed, and why not.",
		"- Programs that heed no proxy variable can't connect; no name is resolved in here.")
}

func (f Facts) files() []string {
	project := f.Project + " is the user's directory: what you change there is changed on the host."
	if f.ProjectReadOnly {
		project = f.Project + " is the user's directory, read-only."
	}
	home := f.Home + " and /tmp are gone after this run."
	if f.HomeKept {
		home = f.Home + " is kept for other runs, /tmp is not."
	}
	lines := []string{"## Files", "", "- " + project,
		"- " + home + " All else is read-only; there is no root and no sudo."}
	if len(f.ReadOnly) > 0 {
		lines = append(lines, "- Read-only, since the host would act on them: "+list(f.ReadOnly)+". Writing fails with EROFS or EBUSY.")
	}
	return lines
}

// git names the commands that need to write what they can't. Measured with git
// 2.39: commands that lock .git/config fail, those that record an upstream in it
// say so and go on.
func (f Facts) git() []string {
	config := slices.ContainsFunc(f.ReadOnly, func(p string) bool {
		return path.Base(p) == "config" && path.Base(path.Dir(p)) == ".git"
	})
	if !config {
		return nil
	}
	return []string{"## git", "",
		"- .git/config can't be written: `git config`, `git remote add`, `git branch -m`, `git submodule init` and `git sparse-checkout` fail.",
		"- `git push -u` and `git switch` to a remote's branch work, but record no upstream. Name remote and branch: `git pull origin main`.",
		"- If such a setting is needed, give the user the command to run on the host."}
}

// list writes names with commas between, as many as fit.
func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, name := range names {
		name = clean(name)
		if i > 0 && b.Len()+len(name) > maxList {
			return b.String() + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// clean keeps a name to one word of plain characters: a path of the project may hold
// anything, and what stands in this file is obeyed. It takes a space to write a
// sentence that reads like aisb's own.
func clean(name string) string {
	odd := func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !plain && !strings.ContainsRune("._-/+@:*[]~%,=#&()^$", r)
	}
	if strings.ContainsFunc(name, odd) || len(name) > 120 {
		return fmt.Sprintf("(a name of %d bytes)", len(name))
	}
	return name
}
