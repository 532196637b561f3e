package mounts

import (
	"path/filepath"
	"slices"
	"strings"
)

// extra is a parsed --mount.
type extra struct {
	flag         string // as the user wrote it
	host, target string
	readOnly     bool
}

const extraHint = `write --mount HOST:CTR or --mount HOST:CTR:ro; a colon in a path is written \:, a backslash \\`

// parseExtra reads HOST:CTR[:ro]. In both paths \: is a colon and \\ a
// backslash; no other way to read the text is left open.
func parseExtra(flag string) (extra, error) {
	fields := []string{""}
	for i := 0; i < len(flag); i++ {
		last := &fields[len(fields)-1]
		switch c := flag[i]; {
		case c == 0 || c == '\n':
			return extra{}, refuse(extraHint, "mount %q: a control character", flag)
		case c == '\\':
			if i+1 == len(flag) || flag[i+1] != ':' && flag[i+1] != '\\' {
				return extra{}, refuse(extraHint, "mount %q: a backslash before neither a colon nor a backslash", flag)
			}
			i++
			*last += flag[i : i+1]
		case c == ':':
			fields = append(fields, "")
		default:
			*last += flag[i : i+1]
		}
	}
	e := extra{flag: flag}
	switch n := len(fields); {
	case n == 1:
		return e, refuse(extraHint, "mount %q: no path in the container", flag)
	case n > 3:
		return e, refuse(extraHint, "mount %q: too many colons to tell the paths apart", flag)
	case n == 3 && fields[2] == "ro":
		e.readOnly = true
	case n == 3 && fields[2] == "rw":
	case n == 3:
		return e, refuse(extraHint, "mount %q: unknown option %q, only ro and rw are known", flag, fields[2])
	}
	e.host, e.target = fields[0], fields[1]
	switch {
	case e.host == "":
		return e, refuse(extraHint, "mount %q: no path on the host", flag)
	case strings.HasPrefix(e.host, "~"):
		return e, refuse("write $HOME, or a path from / on", "mount %q: the shell has not replaced the ~", flag)
	case !strings.Contains(e.host, "/") && e.host != "." && e.host != "..":
		// podman would take it for a volume's name.
		return e, refuse("write ./"+e.host+" for a directory here; named volumes are not mounted",
			"mount %q: %q may be a volume or a path", flag, e.host)
	}
	return e, nil
}

// reserved are paths of the container that no mount may replace. With below
// nothing in them either.
var reserved = []struct {
	path  string
	below bool
	why   string
}{
	{"/proc", true, "it is the kernel's own file system"},
	{"/sys", true, "it is the kernel's own file system"},
	{"/dev", true, "it holds the container's devices"},
	{"/etc", true, "it is the image's, and aisb's own files are in it"},
	{"/usr", true, "it is the image's"},
	{"/bin", true, "it is the image's"},
	{"/sbin", true, "it is the image's"},
	{"/lib", true, "it is the image's"},
	{"/lib32", true, "it is the image's"},
	{"/lib64", true, "it is the image's"},
	{"/boot", true, "it is the image's"},
	{"/run/aisb", true, "it is aisb's own"},
	{"/var/run", true, "it is a link in the image"},
	{"/var/lock", true, "it is a link in the image"},
	{"/run", false, "it holds files of the running container"},
	{"/var", false, "it is the image's"},
	{"/tmp", false, "it is the container's own"},
	{"/home", false, "it holds the agent's home"},
	{"/home/agent", false, "it is the agent's home; --home chooses another volume"},
	{"/root", false, "it is the image's"},
	{Project, false, "it is the project"},
	{"/", false, "it is the container's root"},
}

// checkTarget judges a path in the container.
func checkTarget(target string) *Refusal {
	if !filepath.IsAbs(target) || filepath.Clean(target) != target {
		hint := "name an absolute path without . and .. and double slashes"
		if filepath.IsAbs(target) {
			hint = "write " + filepath.Clean(target)
		}
		return refuse(hint, "target %q is not an absolute, clean path", target)
	}
	for _, r := range reserved {
		// Over: the target would hide the reserved path.
		if within(r.path, target) || r.below && within(target, r.path) {
			return refuse("choose another path in the container, such as /mnt/NAME", "target %q: %s: %s", target, r.path, r.why)
		}
	}
	return nil
}

// addExtra adds the mounts that the user asks for.
func (p *Plan) addExtra(places []place, h Host, o Options) error {
	var sources []*source
	for _, flag := range o.Extra {
		e, err := parseExtra(flag)
		if err != nil {
			return err
		}
		if r := checkTarget(e.target); r != nil {
			r.Reason = "mount " + quote(flag) + ": " + r.Reason
			return r
		}
		if !filepath.IsAbs(e.host) {
			e.host = filepath.Join(o.Dir, e.host)
		}
		s, err := p.open(e.host)
		if err != nil {
			return err
		}
		if err := p.judgeExtra(places, h, o, e, s); err != nil {
			return err
		}
		p.Mounts = append(p.Mounts, s.mount(e.target, e.readOnly))
		sources = append(sources, s)
	}
	for _, s := range sources { // by now all mounts are known, in whatever order they were named
		if err := s.ledOut(p.Mounts); err != nil {
			return err
		}
	}
	return nil
}

// judgeExtra is milder than the judgement of the project: the user named this
// path, so a secret is only pointed out. What lets the agent out stays refused.
func (p *Plan) judgeExtra(places []place, h Host, o Options, e extra, s *source) error {
	if err := s.oneName(); err != nil {
		return err
	}
	if s.device {
		return refuse("only files, directories and sockets can be mounted", "mount %q: %q is a device", e.flag, s.path)
	}
	j := judge(places, h, s.path)
	switch {
	case j == nil:
	case j.hard || j.fatal && !o.AllowDir:
		return j.refusal(s.path)
	case e.readOnly:
		p.warnf("the agent can read %s: %s", s.path, j.why)
	default:
		p.warnf("the agent can read and change %s: %s", s.path, j.why)
	}
	return nil
}

// sortMounts puts parents before what lies in them.
func sortMounts(ms []Mount) {
	slices.SortStableFunc(ms, func(a, b Mount) int { return strings.Compare(a.Target+"/", b.Target+"/") })
}

// checkTargets refuses a target that is used twice, and one in another mount
// that isn't there already: the engine would make it, on the host.
func (p *Plan) checkTargets() error {
	for i, m := range p.Mounts {
		var parent *Mount
		for j := range p.Mounts[:i] {
			if within(m.Target, p.Mounts[j].Target) {
				parent = &p.Mounts[j]
			}
		}
		if parent == nil {
			continue
		}
		if parent.Target == m.Target {
			return refuse("choose another path in the container", "target %q is used twice, for %q and %q", m.Target, parent.Source, m.Source)
		}
		if err := p.checkMountPoint(parent, m); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) checkMountPoint(parent *Mount, m Mount) error {
	rel, err := filepath.Rel(parent.Target, m.Target)
	if err != nil {
		return err
	}
	outer, err := p.openReal(parent.Source)
	if err != nil {
		return err
	}
	point, err := p.openIn(outer, rel)
	if err != nil {
		return refuse("make it first: mkdir or touch "+filepath.Join(parent.Source, rel),
			"target %q lies in the mount of %q, where it doesn't exist: %v", m.Target, parent.Source, errnoText(err))
	}
	inner, err := p.openReal(m.Source)
	if err != nil {
		return err
	}
	if point.dir != inner.dir {
		return refuse("mount a directory on a directory, a file on a file",
			"target %q and source %q: one is a directory, the other isn't", m.Target, m.Source)
	}
	return nil
}
