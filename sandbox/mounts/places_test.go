package mounts

import (
	"strings"
	"testing"
)

func TestRefusedDirectories(t *testing.T) {
	h := testHost(t)
	base := strings.TrimSuffix(h.Home, "/home")
	mkdir(t, h.Home+"/.ssh/keys", h.Home+"/.gnupg", h.Home+"/.aws", h.Home+"/.kube", h.Home+"/.config/app",
		h.Home+"/.local/share/containers/storage", h.Home+"/.local/share/keyrings", h.Home+"/.local/state/aisb/runs",
		h.Home+"/.cache/aisb", h.Home+"/.local/bin", h.RuntimeDir+"/x", base+"/graph/overlay", h.Home+"/code/project/.git/hooks")
	write(t, h.Home+"/code/project/.git/HEAD", "ref: refs/heads/main\n")
	symlink(t, h.Home+"/.ssh", h.Home+"/code/link")
	for _, row := range []struct{ dir, reason, hint string }{
		{h.Home, "your home directory", "no flag helps here: podman mounts the sandbox's own files in " + h.Home + "/.local/share/containers"},
		{h.Home + "/code/..", "your home directory", "one project"},
		{base, "it contains", "no flag helps here"},
		{"/", "whole file system", "no flag helps here"},
		{h.Home + "/.ssh", "ssh keys", "--allow-unsafe-dir"},
		{h.Home + "/.ssh/keys", "it lies in " + h.Home + "/.ssh: it holds your ssh keys", ""},
		{h.Home + "/code/link", "ssh keys", ""},
		{h.Home + "/code/link/keys", "ssh keys", ""},
		{h.Home + "/.gnupg", "gpg keys", ""},
		{h.Home + "/.aws", "AWS", ""},
		{h.Home + "/.kube", "clusters", ""},
		{h.Home + "/.config", "settings and logins", ""},
		{h.Home + "/.config/app", "settings and logins", ""},
		{h.Home + "/.local", "it contains", "no flag helps here"},
		{h.Home + "/.local/share/containers", "container engine", "no flag helps here"},
		{h.Home + "/.local/share", "it contains", ""},
		{h.Home + "/.local/share/keyrings", "passwords", ""},
		{h.Home + "/.local/share/containers/storage", "container engine", "no flag helps here"},
		{base + "/graph/overlay", "container engine", "no flag helps here"},
		{h.Home + "/.local/state/aisb/runs", "aisb's own state", ""},
		{h.Home + "/.local/state", "aisb's own state", ""},
		{h.Home + "/.cache/aisb", "aisb's own state", ""},
		{h.Home + "/.local/bin", "programs that your shell starts", ""},
		{h.RuntimeDir, "sockets of your session", "no flag helps here"},
		{h.RuntimeDir + "/x", "sockets of your session", "--allow-unsafe-dir"},
		{h.Home + "/code/project/.git/hooks", "git's own directory", ""},
		{"/etc", "host's system", ""},
		{"/usr/lib", "host's system", ""},
		{"/var/lib", "host's system", ""},
		{"/run", "services", ""},
		{"/tmp", "files of all programs", ""},
	} {
		t.Run(row.dir, func(t *testing.T) {
			wantRefusal(t, h, Options{Dir: row.dir}, row.reason, row.hint)
		})
	}
}

func TestNeverMounted(t *testing.T) {
	h := testHost(t)
	for _, dir := range []string{"/proc", "/proc/self", "/sys", "/sys/kernel", "/dev", "/dev/shm"} {
		o := Options{Dir: dir, AllowDir: true}
		p, err := Make(h, o)
		if err == nil {
			p.Close()
			t.Errorf("%s is mounted with --allow-unsafe-dir", dir)
			continue
		}
		if strings.Contains(err.(*Refusal).Hint, "--allow-unsafe-dir") {
			t.Errorf("%s: the hint names a flag that doesn't help", dir)
		}
	}
}

func TestAllowedDirectories(t *testing.T) {
	h := testHost(t)
	base := strings.TrimSuffix(h.Home, "/home")
	for _, dir := range []string{
		h.Home + "/code/project", h.Home + "/code", base + "/elsewhere", h.Home + "/.sshd", h.Home + "/.configs",
		h.Home + "/a, b: \"c\" $d 'e' %20", h.Home + "/żółć/項目/👩‍💻", h.Home + "/new\nline", h.Home + "/" + strings.Repeat("long-name-", 25) + "/" + strings.Repeat("n", 250),
	} {
		mkdir(t, dir)
		p := plan(t, h, Options{Dir: dir})
		if len(p.Mounts) != 1 || p.Mounts[0].Source != dir || p.Mounts[0].Target != Project || p.Mounts[0].ReadOnly || p.Workdir != Project {
			t.Errorf("%q: %+v", dir, p)
		}
		if len(p.Warnings) != 0 {
			t.Errorf("%q: warnings %q", dir, p.Warnings)
		}
	}
}

func TestFlagLiftsRefusal(t *testing.T) {
	h := testHost(t)
	mkdir(t, h.Home+"/.config/nvim")
	p := plan(t, h, Options{Dir: h.Home + "/.config/nvim", AllowDir: true})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "--allow-unsafe-dir") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// What contains the files that podman mounts would end the start, mounted or
// not by a flag: it is refused before, and --mount is no way round.
func TestFlagDoesNotLiftStorage(t *testing.T) {
	h := testHost(t)
	mkdir(t, h.Home+"/.local/share/containers/storage/overlay", h.Home+"/code/project", h.RuntimeDir+"/netns")
	for _, dir := range []string{h.Home, h.Home + "/.local", h.Home + "/.local/share/containers/storage/overlay", h.RuntimeDir, h.RuntimeDir + "/netns", "/"} {
		wantRefusal(t, h, Options{Dir: dir, AllowDir: true}, "is not mounted", "no flag helps here")
		wantRefusal(t, h, Options{Dir: h.Home + "/code/project", Extra: []string{dir + ":/mnt/x"}, AllowDir: true}, "is not mounted", "no flag helps here")
	}
}

// A secret that is a link makes the directory that really holds it one.
func TestSecretBehindLink(t *testing.T) {
	h := testHost(t)
	mkdir(t, h.Home+"/dotfiles/ssh")
	symlink(t, "dotfiles/ssh", h.Home+"/.ssh")
	for _, dir := range []string{"/dotfiles/ssh", "/dotfiles"} {
		wantRefusal(t, h, Options{Dir: h.Home + dir}, "ssh keys", "")
	}
}

// aisb's own directories are made by the first run. A link on the way to them
// must not let it make them where its own agent can write.
func TestFutureStateBehindLink(t *testing.T) {
	h := testHost(t)
	mkdir(t, h.Home+"/data/cache", h.Home+"/data/project")
	symlink(t, "data/cache", h.Home+"/.cache")
	wantRefusal(t, h, Options{Dir: h.Home + "/data/cache"}, "aisb's own state", "")
	wantRefusal(t, h, Options{Dir: h.Home + "/data"}, "aisb's own state", "")
	plan(t, h, Options{Dir: h.Home + "/data/project"})
}

// Home directories may lie in directories of the system.
func TestHomeInSystemDirectory(t *testing.T) {
	places := Host{Home: "/"}.places()
	h := Host{Home: "/usr"} // stands for /root or /var/home/NAME: must exist
	for _, row := range []struct {
		dir     string
		refused bool
	}{{"/usr/share", false}, {"/usr", true}, {"/var/lib/x", true}, {"/var/tmp", true}, {"/var/tmp/x", false}, {"/run/media/x/disk", false}, {"/run/x", true}, {"/srv/x", false}, {"/srv", true}} {
		p := judgeSystem(places, h, row.dir)
		if (p != nil) != row.refused {
			t.Errorf("%s: refused by %+v, want refused: %v", row.dir, p, row.refused)
		}
	}
}

// judgeSystem is judge with the places of the system alone.
func judgeSystem(places []place, h Host, dir string) *place {
	var system []place
	for _, p := range places {
		if p.system {
			system = append(system, p)
		}
	}
	return judge(system, h, dir)
}

func TestNotADirectory(t *testing.T) {
	h := testHost(t)
	write(t, h.Home+"/code/file", "")
	wantRefusal(t, h, Options{Dir: h.Home + "/code/file"}, "is not a directory", "name a directory")
	wantRefusal(t, h, Options{Dir: h.Home + "/code/missing"}, "no such file", "exists")
	h.Home = "not/absolute"
	wantRefusal(t, h, Options{Dir: "/tmp/x"}, "HOME is", "set HOME")
}

func TestStartIn(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, dir+"/sub/deep")
	write(t, dir+"/file", "")
	symlink(t, "sub", dir+"/inside")
	symlink(t, "/etc", dir+"/outside")
	symlink(t, "../..", dir+"/up")
	for sub, want := range map[string]string{
		"": Project, "sub": Project + "/sub", "./sub/deep/": Project + "/sub/deep", ".": Project,
		"inside/deep": Project + "/inside/deep", dir + "/sub": Project + "/sub", "sub/../sub": Project + "/sub",
	} {
		if p := plan(t, h, Options{Dir: dir, Sub: sub}); p.Workdir != want {
			t.Errorf("-w %q: %q, want %q", sub, p.Workdir, want)
		}
	}
	for sub, reason := range map[string]string{
		"..": "outside", "sub/../..": "outside", "/etc": "outside", "outside": "leads out", "up": "leads out",
		"file": "not a directory", "missing": "no such file", "/missing": "no such file",
	} {
		wantRefusal(t, h, Options{Dir: dir, Sub: sub}, reason, "directory")
	}
}
