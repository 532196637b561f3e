package doctor

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func said(text string) Output { return Output{Path: "/usr/bin/x", Ran: true, Text: text} }

func failed(status int, errors string) Output {
	return Output{Path: "/usr/bin/x", Ran: true, Status: status, Errors: errors}
}

func hung() Output { return Output{Path: "/usr/bin/x", Ran: true, TimedOut: 5 * time.Second} }

var options = []string{"--map-host-loopback", "169.254.1.3", "--map-guest-addr", "none", "-t", "none", "--no-map-gw"}

// good are the facts of a Debian 13 on which all is well.
func good(t *testing.T) *Facts {
	t.Helper()
	text, err := os.ReadFile("testdata/info.json")
	if err != nil {
		t.Fatal(err)
	}
	disk := Place{Path: "/home/dev", Type: "ext4", Writable: true, Free: 50 << 30}
	return &Facts{
		UID: 1000, Name: "dev", Env: map[string]string{},
		SubUID: SubIDs{File: "dev:100000:65536\n"}, SubGID: SubIDs{File: "dev:100000:65536\n"},
		NewUIDMap:  Program{Path: "/usr/bin/newuidmap", SetUID: true},
		NewGIDMap:  Program{Path: "/usr/bin/newgidmap", Caps: true},
		RuntimeDir: "/run/user/1000", Core: "1",
		PodmanPath: "/usr/bin/podman", PodmanVersion: said("podman version 5.4.2\n"), PodmanInfo: said(string(text)),
		Trial: Trial{Done: true}, Sysctl: map[string]string{sysMax: "96364"},
		Seccomp:  "kill_process kill_thread trap errno user_notif trace log allow\n",
		Landlock: 7, Cgroup: "cgroup2", Tun: true, Enclose: true,
		Pasta: said("pasta 0.0~git20250503.587980c-2+deb13u1\r\nCopyright Red Hat\r\n"), PastaOptions: options,
		Home: disk, State: disk, Cache: disk, Graph: disk,
		Image: Image{Harness: "pi", Tag: "localhost/aisb:1", Exists: said("")},
	}
}

func TestGoodHost(t *testing.T) {
	r := Examine(*good(t))
	for _, c := range r.Checks {
		if want := map[bool]State{true: Note, false: OK}[c.ID == "run.closed"]; c.State != want {
			t.Errorf("%s: %s %q, want %s", c.ID, c.State, c.Detail, want)
		}
	}
	if r.Verdict != Works || r.Summary() != "a run would work; read 1 note" {
		t.Errorf("%s, %q", r.Verdict, r.Summary())
	}
}

// replace changes what podman info says.
func replace(f *Facts, from, to string) {
	f.PodmanInfo.Text = strings.ReplaceAll(f.PodmanInfo.Text, from, to)
}

const noRange = `time="2026-11-29T21:00:00Z" level=error msg="running ...newuidmap..."
Error: no subuid ranges found for user "dev" in /etc/subuid
`

// wild are hosts that aren't good: what is odd about one, and what a check says.
var wild = []struct {
	name   string
	change func(f *Facts)
	id     string
	state  State
	parts  []string // of detail and hint
}{
	{"root", func(f *Facts) { f.UID = 0 }, "user.ordinary", Fail, []string{"root", "make run"}},

	{"no file", func(f *Facts) { f.anew(); f.SubUID = SubIDs{Err: "open /etc/subuid: no such file or directory"} }, "user.subuid", Fail, []string{"no such file", "usermod --add-subuids"}},
	{"another's range", func(f *Facts) { f.anew(); f.SubUID.File = "alice:100000:65536\n" }, "user.subuid", Fail, []string{"no range for you"}},
	{"too few", func(f *Facts) { f.anew(); f.SubGID.File = "dev:100000:1000\n" }, "user.subgid", Fail, []string{"1000", "65536"}},
	{"no range any more", func(f *Facts) { f.SubUID.File = "" }, "user.subuid", Note, []string{"until you log out", "usermod"}},
	{"two ranges", func(f *Facts) { f.SubUID.File = "dev:100000:65535\ndev:300000:1\n" }, "user.subuid", OK, nil},
	{"by number", func(f *Facts) { f.SubUID.File = "1000:100000:65536\n" }, "user.subuid", OK, nil},
	{"range added later", func(f *Facts) { replace(f, "65536", "10") }, "user.subuid", Fail, []string{"podman system migrate"}},
	{"sssd, getsubids says", func(f *Facts) { f.SubUID = SubIDs{Source: "sss", Asked: said("0: dev 100000 65536\n")} }, "user.subuid", OK, nil},
	{"sssd, podman has them", func(f *Facts) { f.SubGID = SubIDs{Source: "sss"} }, "user.subgid", OK, []string{"podman has 65536"}},
	{"sssd, nobody knows", func(f *Facts) { f.SubGID = SubIDs{Source: "sss"}; f.PodmanInfo = Output{} }, "user.subgid", Unknown, []string{"sss"}},
	{"root's ids", func(f *Facts) { f.UID = 0 }, "user.subuid", Unknown, nil},

	{"newuidmap gone", func(f *Facts) { f.NewUIDMap = Program{} }, "user.newuidmap", Note, []string{"until you log out"}},
	{"no newuidmap", func(f *Facts) { f.anew(); f.NewUIDMap = Program{} }, "user.newuidmap", Fail, []string{"uidmap"}},
	{"no rights", func(f *Facts) { f.anew(); f.NewUIDMap = Program{Path: "/x/newuidmap"} }, "user.newuidmap", Fail, []string{"/x/newuidmap"}},
	{"nosuid", func(f *Facts) { f.anew(); f.NewGIDMap.NoSuid = true }, "user.newgidmap", Fail, []string{"nosuid"}},
	{"su", func(f *Facts) { f.RuntimeDirErr = "XDG_RUNTIME_DIR is not set" }, "user.runtime-dir", Fail, []string{"XDG_RUNTIME_DIR", "linger"}},
	{"core limit", func(f *Facts) { f.CoreErr = "cores go to a program" }, "user.core", Fail, []string{"limits.conf"}},

	{"no podman", func(f *Facts) { f.PodmanPath = "" }, "podman.version", Fail, []string{"no podman", "apt install podman"}},
	{"podman of the project", func(f *Facts) { f.PodmanPath, f.PodmanHidden = "", "/p/bin" }, "podman.version", Fail, []string{"/p/bin"}},
	{"podman 3", func(f *Facts) { f.PodmanVersion = said("podman version 3.4.4\n") }, "podman.version", Fail, []string{"3.4.4", "keep-id"}},
	{"Debian 12's", func(f *Facts) { f.PodmanVersion = said("podman version 4.3.1\n") }, "podman.version", Fail, []string{"4.3.1", "pasta"}},
	{"Ubuntu 24.04's", func(f *Facts) { f.PodmanVersion = said("podman version 4.9.3\n") }, "podman.version", Unknown, []string{"4.9.3"}},
	{"5.0", func(f *Facts) { f.PodmanVersion = said("podman version 5.0.0-dev\n") }, "podman.version", Fail, []string{"5.0.0", "name server"}},
	{"5.2", func(f *Facts) { f.PodmanVersion = said("podman version 5.2.5\n") }, "podman.version", Fail, []string{"5.2.5"}},
	{"5.3", func(f *Facts) { f.PodmanVersion = said("podman version 5.3.0\n") }, "podman.version", OK, nil},
	{"a later one", func(f *Facts) { f.PodmanVersion = said("podman version 6.0.0-rc1\n") }, "podman.version", Note, []string{"6.0.0-rc1", "5.4"}},
	{"docker in disguise", func(f *Facts) { f.PodmanVersion = said("Docker version 27.0.3, build 7d4bcd8\n") }, "podman.version", Unknown, []string{"Docker"}},
	{"says nothing", func(f *Facts) { f.PodmanVersion = said("") }, "podman.version", Unknown, nil},
	{"ends badly", func(f *Facts) { f.PodmanVersion = failed(1, "boom\n") }, "podman.version", Fail, []string{"status 1", "boom"}},
	{"hangs", func(f *Facts) { f.PodmanVersion = hung() }, "podman.version", Fail, []string{"5s", "lock"}},
	{"won't start", func(f *Facts) { f.PodmanVersion = Output{Err: "exec format error"} }, "podman.version", Fail, []string{"exec format"}},

	{"info hangs", func(f *Facts) { f.PodmanInfo = hung() }, "podman.works", Fail, []string{"did not end"}},
	{"no range for podman", func(f *Facts) { f.PodmanInfo = failed(125, noRange) }, "podman.works", Fail, []string{"no subuid ranges", "usermod"}},
	{"rootful", func(f *Facts) { replace(f, `"rootless": true`, `"rootless": false`) }, "podman.works", Fail, []string{"not rootless"}},
	{"single id", func(f *Facts) { replace(f, `{"container_id": 1, "host_id": 100000, "size": 65536}`, `{"size": 0}`) }, "podman.works", Fail, []string{"no subordinate"}},
	{"podman-remote", func(f *Facts) { f.PodmanInfo = failed(125, "Error: unknown flag: --remote\n") }, "podman.works", Fail, []string{"another one"}},
	{"not JSON", func(f *Facts) { f.PodmanInfo.Text = "host:\n" }, "podman.works", Unknown, nil},
	{"no configuration", func(f *Facts) { f.PodmanConfErr = "it is not what aisb wrote" }, "podman.works", Fail, []string{"not what aisb wrote"}},
	{"root's podman", func(f *Facts) { f.UID, f.PodmanInfo = 0, Output{} }, "podman.works", Unknown, nil},
	{"remote", func(f *Facts) { replace(f, `"serviceIsRemote": false`, `"serviceIsRemote": true`) }, "podman.here", Fail, []string{"where the containers run"}},
	{"toolbox", func(f *Facts) { f.Env["TOOLBOX_PATH"] = "/usr/bin/toolbox" }, "podman.here", Unknown, []string{"host itself"}},
	{"container", func(f *Facts) { f.Marks = []string{"/run/.containerenv"} }, "podman.here", Unknown, []string{"/run/.containerenv"}},
	{"CONTAINER_HOST", func(f *Facts) { f.Env["CONTAINER_HOST"] = "ssh://secret@h" }, "podman.here", Note, []string{"CONTAINER_HOST", "ignores"}},
	{"runc", func(f *Facts) { replace(f, `"crun"`, `"runc"`) }, "podman.runtime", Unknown, []string{"runc", "crun"}},
	{"vfs", func(f *Facts) { replace(f, `"overlay"`, `"vfs"`) }, "podman.storage", Note, []string{"storage.conf"}},
	{"btrfs driver", func(f *Facts) { replace(f, `"overlay"`, `"btrfs"`) }, "podman.storage", Unknown, []string{"btrfs"}},
	{"fuse-overlayfs", func(f *Facts) { replace(f, `Diff": "true"`, `Diff": "false"`) }, "podman.storage", Note, []string{"fuse"}},

	{"denied, podman works", func(f *Facts) { f.Trial = Trial{StartErr: "operation not permitted", Denied: true} }, "kernel.userns", OK, []string{"podman has one"}},
	{"denied, not to podman", func(f *Facts) { f.Trial = Trial{Done: true, InPodman: true} }, "kernel.userns", OK, []string{"podman has one"}},
	{"max 0", func(f *Facts) { f.deny(); f.Sysctl[sysMax] = "0" }, "kernel.userns", Fail, []string{"max_user_namespaces=0", "sudo sysctl"}},
	{"no network namespaces", func(f *Facts) { f.deny(); f.Sysctl[sysMaxNet] = "0" }, "kernel.userns", Fail, []string{"max_net_namespaces=0"}},
	{"Debian's sysctl", func(f *Facts) { f.deny(); f.Sysctl[sysClone] = "0" }, "kernel.userns", Fail, []string{"unprivileged_userns_clone=1"}},
	{"AppArmor", func(f *Facts) { f.deny(); f.Sysctl[sysAppArmor] = "1" }, "kernel.userns", Unknown, []string{"AppArmor"}},
	{"chroot", func(f *Facts) { f.deny() }, "kernel.userns", Fail, []string{"chroot"}},
	{"nothing is known", func(f *Facts) { f.Trial, f.PodmanInfo = Trial{StartErr: "odd"}, Output{} }, "kernel.userns", Unknown, []string{"odd"}},
	{"restricted", func(f *Facts) { f.Sysctl[sysAppArmor] = "1" }, "kernel.apparmor", Note, []string{"profile"}},
	{"no namespaces", func(f *Facts) { f.deny() }, "kernel.nftables", Unknown, []string{"not tried"}},
	{"no nf_tables", func(f *Facts) { f.Trial = Trial{Step: "apply", Err: "protocol not supported", Lacks: true} }, "kernel.nftables", Fail, []string{"modprobe nf_tables"}},
	{"reads back otherwise", func(f *Facts) { f.Trial = Trial{Step: "verify", Err: "not the one asked for"} }, "kernel.nftables", Fail, []string{"verify"}},
	{"denied in namespaces", func(f *Facts) { f.Trial = Trial{Step: "apply", Err: "EPERM", Denied: true} }, "kernel.nftables", Fail, []string{"EPERM"}},
	{"denied by AppArmor", func(f *Facts) {
		f.Trial = Trial{Step: "apply", Err: "EPERM", Denied: true}
		f.Sysctl[sysAppArmor] = "1"
	}, "kernel.nftables", Unknown, []string{"AppArmor"}},
	{"no seccomp", func(f *Facts) { f.Seccomp = "" }, "kernel.seccomp", Fail, []string{"CONFIG_SECCOMP_FILTER"}},
	{"no Landlock", func(f *Facts) { f.Landlock, f.LandlockErr = 0, "this kernel was booted without its Landlock" }, "kernel.landlock", Note, []string{"booted without", "lsm=landlock"}},
	{"the first Landlock", func(f *Facts) { f.Landlock = 1 }, "kernel.landlock", OK, []string{"version 1"}},
	{"old seccomp", func(f *Facts) { f.Seccomp = "kill trap trace allow" }, "kernel.seccomp", Fail, []string{"errno"}},
	{"enforcing", func(f *Facts) { f.SELinux = "1" }, "kernel.selinux", Unknown, []string{"enforcing", "ausearch"}},
	{"permissive", func(f *Facts) { f.SELinux = "0\n" }, "kernel.selinux", Note, []string{"permissive"}},
	{"hybrid", func(f *Facts) { f.Cgroup, f.CgroupMixed = "tmpfs", true }, "kernel.cgroup", Fail, []string{"hybrid", "unified_cgroup_hierarchy"}},
	{"version 1", func(f *Facts) { f.Cgroup = "tmpfs" }, "kernel.cgroup", Unknown, []string{"version 1"}},
	{"no cgroup", func(f *Facts) { f.Cgroup = "" }, "kernel.cgroup", Unknown, nil},
	{"no delegation", func(f *Facts) { f.Limits = []string{"this host can't enforce --pids-limit 4096"} }, "kernel.limits", Note, []string{"--pids-limit", "Delegate="}},

	{"no tun", func(f *Facts) { f.Tun, f.TunErr = false, "open /dev/net/tun: permission denied" }, "network.tun", Note, []string{"permission denied", "modprobe tun"}},
	{"no pasta", func(f *Facts) { f.Pasta = Output{} }, "network.pasta", Note, []string{"there is none", "--net full"}},
	{"old pasta", func(f *Facts) {
		f.Pasta = failed(1, "pasta: unrecognized option '--map-host-loopback'\n"+oldHelp)
		f.PastaHelp = said("pasta 0.0~git20240220.1e6f92b-1\n" + oldHelp)
	}, "network.pasta", Note, []string{"20240220", "too old", "--map-host-loopback", "--map-guest-addr"}},
	{"pasta refuses", func(f *Facts) {
		f.Pasta = failed(1, "Invalid address\n")
		f.PastaHelp = said(oldHelp + "  --map-host-loopback ADDR\n  --map-guest-addr ADDR\n")
	}, "network.pasta", Note, []string{"refuses", "Invalid address"}},
	{"pasta hangs", func(f *Facts) { f.Pasta = hung() }, "network.pasta", Note, []string{"did not end"}},
	{"pasta won't start", func(f *Facts) { f.Pasta.Err = "permission denied" }, "network.pasta", Note, []string{"permission denied"}},
	{"pasta says no version", func(f *Facts) { f.Pasta.Text = "" }, "network.pasta", OK, []string{"no version"}},
	{"no pasta for the rest", func(f *Facts) { f.Pasta = Output{} }, "network.backend", Note, []string{"inner; --no-gate"}},
	{"a pasta that can't be used", func(f *Facts) { f.Pasta = hung() }, "network.backend", Note, []string{"inner; --no-gate"}},
	{"a pasta without tun", func(f *Facts) { f.Tun = false }, "network.backend", Note, []string{"inner; --no-gate"}},
	{"an old kernel", func(f *Facts) { f.Enclose, f.EncloseErr = false, "needs Linux 5.14" }, "network.backend", Note, []string{"pasta; not inner", "5.14"}},
	{"no backend", func(f *Facts) { f.Enclose, f.Pasta = false, Output{} }, "network.backend", Fail, []string{"there is none", "5.14"}},
	{"proxies", func(f *Facts) { f.Env["https_proxy"], f.Env["NO_PROXY"] = "http://u:hunter2@p", "x" }, "network.proxy", Note, []string{"https_proxy", "NO_PROXY", "aisb gate --upstream-proxy"}},
	{"proxies, run can", func(f *Facts) { f.Env["HTTPS_PROXY"], f.Upstream = "x", true }, "network.proxy", Note, []string{"aisb run --upstream-proxy"}},

	{"no HOME", func(f *Facts) { f.Home = Place{Err: `"" is not an absolute path`} }, "disk.home", Fail, []string{"HOME"}},
	{"NFS home", func(f *Facts) { f.Home.Type = "nfs" }, "disk.home", Unknown, []string{"nfs", "local disk"}},
	{"full home", func(f *Facts) { f.Home.Free = 1 << 20 }, "disk.home", Fail, []string{"only 1 MiB"}},
	{"filling home", func(f *Facts) { f.Home.Free = 500 << 20 }, "disk.home", Note, []string{"500 MiB"}},
	{"state read-only", func(f *Facts) { f.State.ReadOnly = true }, "disk.state", Fail, []string{"XDG_STATE_HOME"}},
	{"state of another", func(f *Facts) { f.State.Writable = false }, "disk.state", Fail, []string{"can't be written"}},
	{"state noexec", func(f *Facts) { f.State.NoExec = true }, "disk.state", OK, nil},
	{"cache noexec", func(f *Facts) { f.Cache.NoExec = true }, "disk.cache", Fail, []string{"noexec", "XDG_CACHE_HOME"}},
	{"cache on sshfs", func(f *Facts) { f.Cache.Type = "fuse" }, "disk.cache", Unknown, []string{"fuse"}},
	{"storage noexec", func(f *Facts) { f.Graph.NoExec = true }, "disk.storage", Fail, []string{"noexec"}},
	{"storage on NFS", func(f *Facts) { f.Graph.Type = "nfs" }, "disk.storage", Unknown, []string{"graphroot"}},
	{"storage nowhere", func(f *Facts) { f.Graph = Place{} }, "disk.storage", Unknown, nil},
	{"room for a run, not for a build", func(f *Facts) { f.Graph.Free, f.Image.Tag = 2<<30, "" }, "disk.storage", Note, []string{"2.0 GiB", "prune"}},
	{"room for a run", func(f *Facts) { f.Graph.Free = 2 << 30 }, "disk.storage", OK, nil},

	{"cgo", func(f *Facts) { f.Cgo = true }, "run.binary", Fail, []string{"CGO_ENABLED=0"}},
	{"configuration", func(f *Facts) { f.Settings = Settings{"x.toml:2: unknown key", "did you mean allow?"} }, "run.config", Fail, []string{"x.toml:2", "did you mean"}},
	{"no image", func(f *Facts) { f.Image.Tag = "" }, "run.image", Note, []string{"pi", "aisb image build"}},
	{"image gone", func(f *Facts) { f.Image.Exists = failed(1, "") }, "run.image", Note, []string{"gone"}},
	{"podman won't say", func(f *Facts) { f.Image.Exists = failed(125, "Error: boom\n") }, "run.image", Unknown, []string{"boom"}},
	{"podman not asked", func(f *Facts) { f.Image.Exists = Output{} }, "run.image", Unknown, nil},
	{"records can't be read", func(f *Facts) { f.Image.Err = "permission denied" }, "run.image", Unknown, []string{"permission denied"}},
	{"dirty", func(f *Facts) { f.Git = Git{Root: "/p", Changed: 1, New: 2} }, "run.git", Note, []string{"1 file changed, 2 new files", "git stash"}},
	{"git fails", func(f *Facts) { f.Git = Git{Root: "/p", Err: "git status: boom"} }, "run.git", Unknown, []string{"boom"}},
	{"always", func(*Facts) {}, "run.closed", Note, []string{"Chromium", "bubblewrap", "podman", "--allow-userns"}},
}

// anew: podman has no user namespace from before.
func (f *Facts) anew() { f.PodmanInfo = failed(125, noRange) }

func (f *Facts) deny() {
	f.Trial, f.PodmanInfo = Trial{StartErr: "can't make one: operation not permitted", Denied: true}, failed(125, "Error: x\n")
}

const oldHelp = `Usage: pasta [OPTION]... [COMMAND] [ARGS]...
  -d, --debug		Be verbose
  -m, --mtu MTU	Assign MTU via DHCP/NDP
      a zero value disables assignment
  --no-map-gw		Don't map gateway address to host
  -t, --tcp-ports SPEC	TCP port forwarding to namespace
        -t 22	Forward local port 22 to port 22 in netns
`

func TestWildHosts(t *testing.T) {
	for _, w := range wild {
		f := good(t)
		w.change(f)
		r := Examine(*f)
		i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.ID == w.id })
		if i < 0 {
			t.Fatalf("%s: there is no check %s", w.name, w.id)
		}
		c := r.Checks[i]
		if c.State != w.state {
			t.Errorf("%s: %s is %s %q, want %s", w.name, w.id, c.State, c.Detail, w.state)
		}
		for _, part := range w.parts {
			if !strings.Contains(c.Detail+"\n"+c.Hint, part) {
				t.Errorf("%s: %s says %q, hint %q, without %q", w.name, w.id, c.Detail, c.Hint, part)
			}
		}
		if c.State == Fail && r.Verdict != Fails || c.State == Unknown && r.Verdict == Works {
			t.Errorf("%s: %s is %s and the verdict %s", w.name, w.id, c.State, r.Verdict)
		}
		if strings.Contains(r.String(), "secret") || strings.Contains(r.String(), "hunter2") {
			t.Errorf("%s: the report has the value of a variable:\n%s", w.name, r)
		}
	}
}

// TestEveryCheckBites: a check that nothing makes say anything but ok is none.
func TestEveryCheckBites(t *testing.T) {
	for _, c := range checks {
		id := c.group + "." + c.name
		bites := false
		for _, w := range wild {
			bites = bites || w.id == id && w.state != OK
		}
		if !bites {
			t.Errorf("%s is never anything but ok", id)
		}
	}
}

// TestNothingIsKnown: without facts, only what is seen by its absence is ok.
func TestNothingIsKnown(t *testing.T) {
	absent := []string{"user.ordinary", "podman.here", "kernel.apparmor", "kernel.selinux", "kernel.limits", "network.proxy", "run.binary", "run.config", "run.git"}
	r := Examine(Facts{UID: 1000})
	for _, c := range r.Checks {
		if c.State == OK && !slices.Contains(absent, c.ID) {
			t.Errorf("%s is ok: %q", c.ID, c.Detail)
		}
	}
	if r.Verdict != Fails {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

// TestDocumented: docs/doctor.md lists the checks, each once, and no others.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, have []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z-]+)` \\|").FindAllSubmatch(text, -1) {
		listed = append(listed, string(m[1]))
	}
	for _, c := range checks {
		have = append(have, c.group+"."+c.name)
	}
	if !slices.Equal(listed, have) {
		t.Errorf("docs/doctor.md lists\n%q, there are\n%q", listed, have)
	}
}

func TestReport(t *testing.T) {
	f := good(t)
	f.Tun, f.TunErr, f.SELinux, f.Cgo = false, "open /dev/net/tun: permission denied", "1", true
	got := Examine(*f)
	if got.Problems != 1 || got.Unknown != 1 || got.Summary() != "a run would fail: 1 problem" {
		t.Errorf("%d problems, %d unknown, %q", got.Problems, got.Unknown, got.Summary())
	}
	want := `network
  note     /dev/net/tun         open /dev/net/tun: permission denied
                                -> sudo modprobe tun; and see that you may open it: ls -l /dev/net/tun should show crw-rw-rw-; --no-gate and --net full need it, other runs don't
  ok       pasta                pasta 0.0~git20250503.587980c-2+deb13u1, takes aisb's options
`
	if !strings.Contains(got.String(), want) || !strings.HasSuffix(got.String(), "\na run would fail: 1 problem\n") {
		t.Errorf("got:\n%s", got)
	}
	f.Cgo = false
	if got := Examine(*f).Summary(); got != "a run may work: 1 check could not tell" {
		t.Error(got)
	}
	for line := range bytes.Lines([]byte(got.String())) {
		if bytes.HasSuffix(line, []byte(" \n")) {
			t.Errorf("%q ends with a space", line)
		}
	}
}
