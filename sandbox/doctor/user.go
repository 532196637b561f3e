package doctor

import (
	"strconv"
	"strings"
)

// wantIDs is how many subordinate IDs an image needs: its users, and nobody,
// which is 65534.
const wantIDs = 65536

const (
	hintUser = "run aisb as an ordinary user; on a machine with root alone, 'make run' uses the project's lab"
	hintIDs  = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; podman system migrate"
)

func judgeUser(f Facts) result {
	if f.UID == 0 {
		return fail(hintUser, "this is root, and podman would not be rootless")
	}
	return ok("uid %d", f.UID)
}

func judgeSubUID(f Facts) result { return judgeSubIDs(f, f.SubUID, "/etc/subuid", "uid") }
func judgeSubGID(f Facts) result { return judgeSubIDs(f, f.SubGID, "/etc/subgid", "gid") }

// later is for what would fail, had podman not made its user namespace before:
// its pause process holds that until the user logs out or podman migrates.
func (f Facts) later(r result) result {
	if i := f.info(); r.state != Fail || min(i.mapped("uid"), i.mapped("gid")) < wantIDs {
		return r
	}
	r.state = Note
	r.detail += "; podman goes on with its older user namespace, until you log out"
	return r
}

// judgeSubIDs believes podman, which has tried, before files.
func judgeSubIDs(f Facts, ids SubIDs, file, what string) result {
	if f.UID == 0 {
		return unknown("", "they belong to the user who runs aisb, and this is root")
	}
	mapped := f.info().mapped(what)
	text, from := ids.File, file
	if ids.Source != "" && ids.Source != "files" {
		if !ids.Asked.fine() {
			if mapped >= wantIDs {
				return ok("podman has %d", mapped)
			}
			return unknown("see that 'getsubids' names a range for you", "nsswitch.conf has them from %s, and getsubids did not say", ids.Source)
		}
		// getsubids(1): "0: USER START COUNT" a line.
		text, from = strings.ReplaceAll(afterColons(ids.Asked.Text), " ", ":"), ids.Source
	} else if ids.Err != "" {
		return f.later(fail(hintIDs, "%s", ids.Err))
	}
	n := countIDs(text, f.Name, f.UID)
	switch {
	case n == 0:
		return f.later(fail(hintIDs, "%s has no range for you", from))
	case n < wantIDs:
		return f.later(fail(hintIDs, "%s gives you %d, an image needs %d", from, n, wantIDs))
	case mapped > 0 && mapped < wantIDs:
		return fail("podman system migrate", "%s gives you %d, podman still uses %d", from, n, mapped)
	}
	return ok("%d", n)
}

func afterColons(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, ":")
		b.WriteString(strings.Join(strings.Fields(rest), " ") + "\n")
	}
	return b.String()
}

// countIDs adds up a user's ranges. A line is USER:START:COUNT, and USER is a
// name or a number (subuid(5)).
func countIDs(text, name string, uid int) int {
	sum := 0
	for line := range strings.Lines(text) {
		p := strings.Split(strings.TrimSpace(line), ":")
		if len(p) != 3 || p[0] != strconv.Itoa(uid) && (name == "" || p[0] != name) {
			continue
		}
		start, err := strconv.ParseUint(p[1], 10, 32)
		n, err2 := strconv.ParseUint(p[2], 10, 32)
		if err != nil || err2 != nil || start == 0 {
			continue
		}
		sum += int(n)
	}
	return sum
}

func judgeNewUIDMap(f Facts) result { return f.later(judgeMapper(f.NewUIDMap, "newuidmap")) }
func judgeNewGIDMap(f Facts) result { return f.later(judgeMapper(f.NewGIDMap, "newgidmap")) }

func judgeMapper(p Program, name string) result {
	const install = "install it: sudo apt install uidmap (Debian, Ubuntu), shadow-utils elsewhere"
	switch {
	case p.Path == "":
		return fail(install, "there is no %s in PATH", name)
	case p.NoSuid:
		return fail("mount that file system without nosuid", "%s lies on a file system with nosuid, and can't raise its rights", p.Path)
	case p.SetUID:
		return ok("%s, setuid root", p.Path)
	case p.Caps:
		return ok("%s, with file capabilities", p.Path)
	}
	return fail("install it anew, so that it gets its rights back", "%s is neither setuid root nor has it file capabilities", p.Path)
}

func judgeRuntimeDir(f Facts) result {
	if f.RuntimeDirErr != "" || f.RuntimeDir == "" {
		return fail("log in as that user (ssh, a console, machinectl shell) rather than by su, or: loginctl enable-linger", "%s", f.RuntimeDirErr)
	}
	return ok("%s, yours alone", f.RuntimeDir)
}

func judgeCore(f Facts) result {
	if f.CoreErr != "" || f.Core == "" {
		return fail("let the hard limit be 1 or more: see 'hard core' in limits.conf(5), or LimitCORE= of the service", "%s", f.CoreErr)
	}
	return ok("a sandbox leaves none on the host")
}
