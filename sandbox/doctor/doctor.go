// Package doctor says whether a run of aisb would work on this host, and what to
// do where it would not. Collect gathers facts and decides nothing; Examine
// judges them and touches nothing, so that the odd hosts are rows of tables.
//
// A check is ok for what was seen to be as it must be, never for what could not
// be tried: that is unknown.
package doctor

import (
	"fmt"
	"slices"
)

// State is the result of a check.
type State string

// The states. Note is for what stops no run and is weaker, slower or other than
// people expect.
const (
	OK      State = "ok"
	Note    State = "note"
	Fail    State = "fail"
	Unknown State = "unknown"
)

// Check is one result. docs/doctor.md lists the IDs: they are stable.
type Check struct {
	ID     string `json:"id"` // GROUP.NAME
	Group  string `json:"group"`
	Title  string `json:"title"`
	State  State  `json:"state"`
	Detail string `json:"detail"`         // what was seen
	Hint   string `json:"hint,omitempty"` // what to do
}

// Verdict is what the checks say together.
type Verdict string

// The verdicts.
const (
	Works    Verdict = "works"
	Fails    Verdict = "fails"
	MayWork  Verdict = "unknown" // nothing is known to be wrong, and not all is known
	problem          = "problem"
	question         = "check"
)

// Report is the result of all checks.
type Report struct {
	Verdict  Verdict `json:"verdict"`
	Problems int     `json:"problems"` // checks that failed
	Unknown  int     `json:"unknown"`  // checks that could not tell
	Checks   []Check `json:"checks"`
}

// judgement makes a check of what was found out.
type judgement func(Facts) result

// result is a Check without what the table below says of it.
type result struct {
	state        State
	detail, hint string
}

// checks are all there are, in the order of the report.
var checks = []struct {
	group, name, title string
	judge              judgement
}{
	{"user", "ordinary", "ordinary user", judgeUser},
	{"user", "subuid", "subordinate uids", judgeSubUID},
	{"user", "subgid", "subordinate gids", judgeSubGID},
	{"user", "newuidmap", "newuidmap", judgeNewUIDMap},
	{"user", "newgidmap", "newgidmap", judgeNewGIDMap},
	{"user", "runtime-dir", "runtime directory", judgeRuntimeDir},
	{"user", "core", "core files", judgeCore},
	{"podman", "version", "podman", judgePodmanVersion},
	{"podman", "works", "podman works", judgePodmanWorks},
	{"podman", "here", "containers run here", judgeHere},
	{"podman", "runtime", "container runtime", judgeRuntime},
	{"podman", "storage", "storage driver", judgeStorage},
	{"kernel", "userns", "user namespaces", judgeUserNS},
	{"kernel", "apparmor", "AppArmor", judgeAppArmor},
	{"kernel", "nftables", "packet filter", judgeNFTables},
	{"kernel", "seccomp", "system call filter", judgeSeccomp},
	{"kernel", "landlock", "Landlock", judgeLandlock},
	{"kernel", "selinux", "SELinux", judgeSELinux},
	{"kernel", "cgroup", "control groups", judgeCgroup},
	{"kernel", "limits", "limits", judgeLimits},
	{"network", "tun", "/dev/net/tun", judgeTun},
	{"network", "pasta", "pasta", judgePasta},
	{"network", "backend", "network backend", judgeBackend},
	{"network", "proxy", "proxy variables", judgeProxy},
	{"disk", "home", "home directory", judgeHome},
	{"disk", "state", "aisb's state", judgeStateDir},
	{"disk", "cache", "aisb's cache", judgeCacheDir},
	{"disk", "storage", "podman's storage", judgeGraphRoot},
	{"run", "binary", "aisb itself", judgeBinary},
	{"run", "config", "configuration", judgeSettings},
	{"run", "image", "image", judgeImage},
	{"run", "git", "git tree here", judgeGit},
	{"run", "closed", "closed inside", judgeClosed},
}

// Examine judges the facts.
func Examine(f Facts) Report {
	r := Report{Verdict: Works}
	for _, c := range checks {
		got := c.judge(f)
		switch got.state {
		case Fail:
			r.Problems++
		case Unknown:
			r.Unknown++
		}
		r.Checks = append(r.Checks, Check{ID: c.group + "." + c.name, Group: c.group, Title: c.title,
			State: got.state, Detail: got.detail, Hint: got.hint})
	}
	switch {
	case r.Problems > 0:
		r.Verdict = Fails
	case r.Unknown > 0:
		r.Verdict = MayWork
	}
	return r
}

// Summary is the report in a line.
func (r Report) Summary() string {
	notes := 0
	for _, c := range r.Checks {
		if c.State == Note {
			notes++
		}
	}
	switch {
	case r.Verdict == Fails:
		return fmt.Sprintf("a run would fail: %s", count(r.Problems, problem))
	case r.Verdict == MayWork:
		return fmt.Sprintf("a run may work: %s could not tell", count(r.Unknown, question))
	case notes > 0:
		return fmt.Sprintf("a run would work; read %s", count(notes, "note"))
	}
	return "a run would work"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Groups are the groups of the report, in its order.
func (r Report) Groups() []string {
	var groups []string
	for _, c := range r.Checks {
		if !slices.Contains(groups, c.Group) {
			groups = append(groups, c.Group)
		}
	}
	return groups
}

func ok(format string, args ...any) result {
	return result{state: OK, detail: fmt.Sprintf(format, args...)}
}

func note(hint, format string, args ...any) result {
	return result{state: Note, detail: fmt.Sprintf(format, args...), hint: hint}
}

func fail(hint, format string, args ...any) result {
	return result{state: Fail, detail: fmt.Sprintf(format, args...), hint: hint}
}

func unknown(hint, format string, args ...any) result {
	return result{state: Unknown, detail: fmt.Sprintf(format, args...), hint: hint}
}
