package doctor

import (
	"strings"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// installPasta: --map-host-loopback and --map-guest-addr came with passt 2024_08_14.
const installPasta = "install passt of 2024-10 or newer: sudo apt install passt (Debian 13)"

const hintPasta = installPasta + "; --no-gate and --net full need it, other runs don't"

func judgeTun(f Facts) result {
	switch {
	case f.Tun:
	case f.Pasta.Path == "":
		return note("", "%s; only pasta needs it, and there is none", f.TunErr)
	default:
		return note("sudo modprobe tun; and see that you may open it: ls -l /dev/net/tun should show crw-rw-rw-; --no-gate and --net full need it, other runs don't",
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
		return note("", "there is none: --no-gate and --net full can't be had")
	case o.TimedOut > 0:
		return note(hintPasta, "%s --version did not end within %v", o.Path, o.TimedOut)
	case !o.Ran || o.Err != "":
		return note(hintPasta, "%s: %s", o.Path, o.Err)
	}
	if o.Status == 0 {
		if v := podman.PastaVersion(o.Text); v != "" {
			return ok("%s, takes aisb's options", v)
		}
		return ok("takes aisb's options (it names no version)")
	}
	v := podman.PastaVersion(f.PastaHelp.Text)
	if v == "" {
		v = o.Path
	}
	if lacks := podman.PastaLacks(f.PastaHelp.Text+f.PastaHelp.Errors, f.PastaOptions); len(lacks) > 0 {
		return note(hintPasta, "%s is too old: it lacks %s", v, strings.Join(lacks, ", "))
	}
	return note(hintPasta, "%s refuses aisb's options: %s", v, firstLine(o.Errors+o.Text))
}

// judgeBackend says which backend a run takes, and why.
func judgeBackend(f Facts) result {
	pasta := f.Pasta.Path != "" && judgePasta(f).state == OK && judgeTun(f).state == OK
	switch {
	case f.Enclose && pasta:
		return ok("inner; pasta for --no-gate and --net full")
	case f.Enclose:
		return note("", "inner; --no-gate and --net full need a pasta that can be used")
	case pasta:
		return note("", "pasta; not inner: %s", f.EncloseErr)
	}
	return fail("use a kernel of 5.14 or newer, or "+installPasta, "there is none: no pasta that can be used, and not inner: %s", f.EncloseErr)
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
