package mounts

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// place is a part of the host that a project may not be, contain or lie in.
type place struct {
	path   string
	below  bool // what lies below it is refused too
	above  bool // what contains it is refused too
	system bool // doesn't count below a home directory that lies in it
	hard   bool // no flag lifts it
	fatal  bool // not by --mount either, without the flag
	engine bool // podman mounts files of its own in it: see judge
	why    string
	inner  string  // with hard, the place of an engine that is the reason
	real   string  // path without symbolic links, "" if there is nothing
	id     inode   // of what lies there
	chain  []inode // of it, where it exists, and of every directory above it
}

// secrets lie in the home directory. They are refused with all below and all
// that contains them.
var secrets = []struct{ name, why string }{
	{".ssh", "it holds your ssh keys"},
	{".gnupg", "it holds your gpg keys"},
	{".pki", "it holds your certificates and their keys"},
	{".aws", "it holds credentials of AWS"},
	{".azure", "it holds credentials of Azure"},
	{".oci", "it holds credentials of Oracle Cloud"},
	{".kube", "it holds credentials of clusters"},
	{".minikube", "it holds credentials of clusters"},
	{".docker", "it holds credentials of image registries"},
	{".terraform.d", "it holds credentials of Terraform"},
	{".password-store", "it holds your passwords"},
	{".mozilla", "it holds browser profiles"},
	{".thunderbird", "it holds your mail"},
	{".var/app", "it holds the data of your desktop programs"},
	{"snap", "it holds the data of your desktop programs"},
	{".bitcoin", "it holds a wallet"},
	{".ethereum", "it holds a wallet"},
	{".electrum", "it holds a wallet"},
	{".claude", "it holds the logins and settings of an agent on the host"},
	{".codex", "it holds the logins and settings of an agent on the host"},
	{".gemini", "it holds the logins and settings of an agent on the host"},
	{".pi", "it holds the logins and settings of an agent on the host"},
	{".local/bin", "it holds programs that your shell starts by name"},
	{"bin", "it holds programs that your shell starts by name"},
}

// dataSecrets lie in the XDG data directory.
var dataSecrets = []struct{ name, why string }{
	{"keyrings", "it holds your passwords"},
	{"kwalletd", "it holds your passwords"},
	{"gnupg", "it holds your gpg keys"},
	{"applications", "it holds entries that your desktop starts"},
	{"systemd", "it holds units that your session starts"},
}

// systemPlaces are the host's own.
var systemPlaces = []place{
	{path: "/proc", below: true, hard: true, why: "it is the kernel's own file system"},
	{path: "/sys", below: true, hard: true, why: "it is the kernel's own file system"},
	{path: "/dev", below: true, hard: true, why: "it holds the host's devices"},
	{path: "/boot", below: true, why: "it belongs to the host's system"},
	{path: "/etc", below: true, why: "it belongs to the host's system"},
	{path: "/usr", below: true, why: "it belongs to the host's system"},
	{path: "/bin", below: true, why: "it belongs to the host's system"},
	{path: "/sbin", below: true, why: "it belongs to the host's system"},
	{path: "/lib", below: true, why: "it belongs to the host's system"},
	{path: "/lib32", below: true, why: "it belongs to the host's system"},
	{path: "/lib64", below: true, why: "it belongs to the host's system"},
	{path: "/nix", below: true, why: "it belongs to the host's system"},
	{path: "/lost+found", below: true, why: "it belongs to the host's system"},
	{path: "/root", below: true, why: "it is root's home directory"},
	{path: "/var", below: true, why: "it belongs to the host's system"},
	{path: "/run", below: true, why: "it holds the sockets of the host's services"},
	// What is directly in these belongs to different people or programs.
	{path: "/home", why: "it holds home directories"},
	{path: "/tmp", why: "it holds files of all programs and users"},
	{path: "/opt", why: "it holds programs of the host"},
	{path: "/srv", why: "it holds data of the host's services"},
	{path: "/mnt", why: "it holds whole file systems"},
	{path: "/media", why: "it holds whole file systems"},
}

// systemExceptions are directories for the user's own below systemPlaces; they
// themselves are refused like /tmp.
var systemExceptions = []string{"/var/tmp", "/var/www", "/var/home", "/run/media", "/usr/src", "/usr/local/src"}

// places is all that is refused on h, the most telling reason first.
func (h Host) places() []place {
	aisb := place{below: true, above: true, fatal: true, why: "it holds aisb's own state, which decides what the next run may do"}
	ps := []place{{path: h.Home, why: "it is your home directory: everything in it, keys and logins included, would be the agent's"}}
	for _, dir := range []string{h.StateHome, h.CacheHome, h.ConfigHome, h.RuntimeDir} {
		if dir != "" {
			ps = append(ps, aisb.at(filepath.Join(dir, "aisb")))
		}
	}
	for _, s := range secrets {
		ps = append(ps, place{path: filepath.Join(h.Home, s.name), below: true, above: true, why: s.why})
	}
	if h.DataHome != "" {
		for _, s := range dataSecrets {
			ps = append(ps, place{path: filepath.Join(h.DataHome, s.name), below: true, above: true, why: s.why})
		}
	}
	ps = append(ps, place{path: "/", fatal: true, why: "it is the whole file system of the host"})
	storage := place{below: true, above: true, fatal: true, engine: true, why: "it holds the storage of a container engine"}
	for _, dir := range h.StorageRoots {
		ps = append(ps, storage.at(dir))
	}
	if h.RuntimeDir != "" {
		for _, name := range []string{"containers", "libpod", "netns"} {
			ps = append(ps, storage.at(filepath.Join(h.RuntimeDir, name)))
		}
		ps = append(ps, place{path: h.RuntimeDir, below: true, above: true, fatal: true, why: "it holds the sockets of your session"})
	}
	if h.ConfigHome != "" {
		ps = append(ps, place{path: h.ConfigHome, below: true, above: true, why: "it holds the settings and logins of your programs"})
	}
	for _, s := range systemPlaces {
		s.system = true
		ps = append(ps, s)
	}
	ps = slices.DeleteFunc(ps, func(p place) bool { return !filepath.IsAbs(p.path) })
	for i := range ps {
		ps[i].find()
	}
	return ps
}

func (p place) at(path string) place {
	p.path = path
	return p
}

// find sees where a place really lies: ~/.ssh may be a link into a directory of
// dotfiles, and that directory holds the keys then.
func (p *place) find() {
	p.path = filepath.Clean(p.path)
	real, err := filepath.EvalSymlinks(p.path)
	if err != nil {
		// It may come to be, as aisb's own do in the first run.
		dir := p.path
		for err != nil && dir != "/" {
			dir = filepath.Dir(dir)
			real, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			p.chain = chain(real)
		}
		return
	}
	p.real = real
	p.chain = chain(real)
	p.id = p.chain[0]
}

// chain is path and every directory above it by inode: another spelling of a
// name on a file system that ignores case, or a bind mount, doesn't hide them.
func chain(path string) []inode {
	var ids []inode
	for {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			st = unix.Stat_t{} // no file has inode 0
		}
		ids = append(ids, inode{st.Dev, st.Ino})
		if path == "/" {
			return ids
		}
		path = filepath.Dir(path)
	}
}

// judge finds the place that speaks against dir, which is a real path; nil
// when nothing does. No flag lifts it where podman mounts the sandbox's own root
// and namespaces: below dir they would come along with it, after the mounts of
// the host were listed, and nobody could tell them from a foreign mount.
func judge(places []place, h Host, dir string) *place {
	ids := chain(dir)
	var first *place
	inner := ""
	for i := range places {
		p := &places[i]
		is := p.is(dir, ids)
		if !is && !p.covers(h, dir, ids) {
			continue
		}
		// What no flag lifts counts most, then what dir itself is.
		if p.hard {
			return p
		}
		if first == nil || is && !first.is(dir, ids) {
			first = p
		}
		if p.engine && inner == "" {
			inner = p.path
		}
	}
	if first != nil {
		found := *first
		found.hard, found.inner = inner != "", inner
		return &found
	}
	if slices.Contains(strings.Split(dir, "/"), ".git") {
		return &place{path: dir, why: "it is a part of git's own directory: hooks and configuration in it are run by git on the host"}
	}
	return nil
}

// is says whether dir, with its chain, is the place itself.
func (p *place) is(dir string, ids []inode) bool {
	return dir == p.path || p.real != "" && ids[0] == p.id
}

// covers says whether dir, with its chain, contains the place or lies in it,
// and may not.
func (p *place) covers(h Host, dir string, ids []inode) bool {
	exists := p.real != ""
	switch {
	case p.above && (within(p.path, dir) || ids[0].ino != 0 && slices.Contains(p.chain, ids[0])):
		return true
	case !p.below || !within(dir, p.path) && !(exists && slices.Contains(ids, p.id)):
		return false
	}
	if !p.system {
		return true
	}
	// /root for root, /var/home on image-based systems, /var/lib/NAME of a
	// service account.
	if realHome, err := filepath.EvalSymlinks(h.Home); err == nil && within(realHome, p.path) && within(dir, realHome) {
		return false
	}
	return !slices.ContainsFunc(systemExceptions, func(e string) bool { return dir != e && within(dir, e) })
}

func (p *place) refusal(dir string) *Refusal {
	hint := "run aisb in the directory of one project"
	switch {
	case p.inner != "":
		hint += "; no flag helps here: podman mounts the sandbox's own files in " + p.inner
	case !p.hard:
		hint += ", or pass --allow-unsafe-dir if you mean it"
	}
	where := ""
	switch {
	case p.path == dir || p.real == dir:
	case p.below && !p.above, !within(p.path, dir) && !within(p.real, dir):
		where = "it lies in " + p.path + ": "
	default:
		where = "it contains " + p.path + ": "
	}
	return refuse(hint, "%q is not mounted: %s%s", dir, where, p.why)
}

// within says whether path is dir or lies in it. Both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
