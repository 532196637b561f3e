package doctor

import (
	"slices"
	"strings"
)

// hintPasta: --map-host-loopback and --map-guest-addr came with passt 2024_08_14.
const hintPasta = "install passt of 2024-10 or newer: sudo apt install passt (Debian 13); --net-backend inner does without"

func judgeTun(f Facts) result {
	switch {
	case f.Tun:
	case f.Pasta.Path == "":
		return note("", "%s; only pasta needs it, and there is none", f.TunErr)
	default:
		return fail("sudo modprobe tun; and see that you may open it: ls -l /dev/net/tun should show crw-rw-rw-; --net-backend inner does without",
			"%s", f.TunErr)
	}
	return ok("can be opened")
}

// judgePasta wants pasta to take aisb's own options: it was started with them
// and asked for its version, so that it reads them and does nothing.
func judgePasta(f Facts) result {
	o := f.Pasta
	switch {
	case o.Path == "":
		return note("", "there is none: runs take the backend inner, and --net full can't be had")
	case o.TimedOut > 0:
		return fail(hintPasta, "%s --version did not end within %v", o.Path, o.TimedOut)
	case !o.Ran || o.Err != "":
		return fail(hintPasta, "%s: %s", o.Path, o.Err)
	}
	if o.Status == 0 {
		if v := pastaVersion(o.Text); v != "" {
			return ok("%s, takes aisb's options", v)
		}
		return ok("takes aisb's options (it names no version)")
	}
	v := pastaVersion(f.PastaHelp.Text)
	if v == "" {
		v = o.Path
	}
	if lacks := lacking(f.PastaHelp.Text+f.PastaHelp.Errors, f.PastaOptions); len(lacks) > 0 {
		return fail(hintPasta, "%s is too old: it lacks %s", v, strings.Join(lacks, ", "))
	}
	return fail(hintPasta, "%s refuses aisb's options: %s", v, firstLine(o.Errors+o.Text))
}

// pastaVersion is the version in pasta's first line: "pasta 2024_09_06.6b38f07",
// "pasta 0.0~git20250503.587980c-2+deb13u1", "pasta 0^20240906.g6b38f07-1.fc40",
// or "pasta unknown version".
func pastaVersion(text string) string {
	for line := range strings.Lines(text) {
		p := strings.Fields(line)
		if len(p) >= 2 && (p[0] == "pasta" || p[0] == "passt") && strings.ContainsAny(p[1], "0123456789") {
			return "pasta " + p[1]
		}
	}
	return ""
}

// lacking are the options among args that a help text doesn't list. Of a text
// without any option nothing can be said.
func lacking(help string, args []string) []string {
	var have []string
	for line := range strings.Lines(help) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "-") {
			continue
		}
		// "-t, --tcp-ports SPEC  TCP port forwarding"
		for _, word := range strings.Fields(line)[:min(2, len(strings.Fields(line)))] {
			if word = strings.TrimSuffix(word, ","); strings.HasPrefix(word, "-") {
				have = append(have, word)
			}
		}
	}
	if len(have) == 0 {
		return nil
	}
	var lacks []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") && !slices.Contains(have, a) {
			lacks = append(lacks, a)
		}
	}
	return lacks
}

// judgeBackend says which backend a run takes (SPEC 2.8): pasta where there is
// one, whole or not.
func judgeBackend(f Facts) result {
	switch {
	case f.Pasta.Path == "":
		return ok("inner")
	case judgePasta(f).state == OK && judgeTun(f).state == OK:
		return ok("pasta; --net-backend inner is there too")
	}
	return unknown("use --net-backend inner, which needs no pasta", "pasta is there and can't be used")
}

// judgeProxy names variables, not values: they may hold a password.
func judgeProxy(f Facts) result {
	var set []string
	for _, name := range Variables {
		if strings.HasSuffix(strings.ToLower(name), "_proxy") && f.Env[name] != "" {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return ok("none set")
	}
	hint := "where only a proxy gets out, 'aisb gate --upstream-proxy URL' goes through one; aisb run can't yet"
	if f.Upstream {
		hint = "where only a proxy gets out: aisb run --upstream-proxy URL"
	}
	return note(hint, "%s: ignored, the gate connects by itself, and nothing of it gets inside", strings.Join(set, " "))
}
