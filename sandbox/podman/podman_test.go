package podman

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRunArgs(t *testing.T) {
	c := Container{
		Name: "aisb-demo-0a1b2c", Image: "localhost/aisb:1234", Hostname: "aisb",
		Entrypoint: "/usr/libexec/aisb-entry", Descriptors: 1, Network: "none",
		CapAdd:  []string{"NET_ADMIN", "SETUID"},
		Limits:  Limits{Pids: "4096", Shm: "256m"},
		Sysctls: []string{"net.ipv4.tcp_wmem=4096 16384 131072"},
		Tmpfs:   []Tmpfs{{Target: "/tmp", Size: "1g", Mode: "1777", Exec: true}},
		Mounts: []Mount{
			{Source: "/home/u/a, \"b\"", Target: "/project"},
			{Source: "aisb-home", Target: "/home/agent", Volume: true},
			{Source: "/x", Target: "/etc/hosts", ReadOnly: true},
		},
		Extra: []string{"--annotation=a=b"},
	}
	want := strings.Split(strings.TrimSpace(`
run
--rm
--name
aisb-demo-0a1b2c
--label=dev.aisb.container=aisb-demo-0a1b2c
--pull=never
--log-driver=none
--sig-proxy=false
--preserve-fds=1
--http-proxy=false
--image-volume=ignore
--no-healthcheck
--unsetenv-all
--restart=no
--no-hosts
--hostname
aisb
--userns=keep-id:uid=1000,gid=1000
--user
0:0
--cap-drop=all
--cap-add=NET_ADMIN
--cap-add=SETUID
--security-opt=no-new-privileges
--security-opt=label=disable
--read-only
--read-only-tmpfs=true
--ulimit
core=1:1
--network
none
--pids-limit
4096
--shm-size
256m
--sysctl
net.ipv4.tcp_wmem=4096 16384 131072
--tmpfs
/tmp:rw,nosuid,nodev,exec,size=1g,mode=1777
--mount
type=bind,"source=/home/u/a, ""b""",target=/project,bind-propagation=rprivate
--mount
type=volume,source=aisb-home,target=/home/agent
--mount
type=bind,source=/x,target=/etc/hosts,bind-propagation=rprivate,ro=true
--workdir
/
--entrypoint
["/usr/libexec/aisb-entry"]
--annotation=a=b
localhost/aisb:1234`), "\n")
	if got := c.RunArgs(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestConfigurationIsMadeOnceAndChecked(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "aisb")
	conf, err := EnsureConf(parent, false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := EnsureConf(parent, false)
	if err != nil || again != conf {
		t.Fatalf("second time: %v, %v", again, err)
	}
	other, err := EnsureConf(parent, true)
	if err != nil || other == conf {
		t.Errorf("with systemd: %v, %v", other, err)
	}
	for name, spoil := range map[string]func(path string) error{
		"a changed file": func(dir string) error {
			if err := os.Chmod(filepath.Join(dir, fileConf), 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, fileConf), []byte("[containers]\n"), 0o644)
		},
		"a hook": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, dirHooks, "x.json"), nil, 0o644)
		},
		"a file more": func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o644) },
		"a file less": func(dir string) error { return os.Remove(filepath.Join(dir, fileMounts)) },
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := EnsureConf(t.TempDir(), false)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(conf.Dir()); err != nil {
				t.Fatal(err)
			}
			if _, err := EnsureConf(filepath.Dir(conf.Dir()), false); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestEnvironmentOfPodman(t *testing.T) {
	got := Conf{dir: "/c"}.Environ([]string{
		"PATH=/bin", "HOME=/home/u", "http_proxy=http://x", "CONTAINER_HOST=ssh://x", "CONTAINERS_CONF=/evil",
		"CONTAINERS_CONF_OVERRIDE=/evil", "ANTHROPIC_API_KEY=secret", "XDG_RUNTIME_DIR=/run/user/1000",
		"CONTAINERS_STORAGE_CONF=/s",
	})
	want := []string{
		"CONTAINERS_CONF=/c/containers.conf", "PATH=/bin", "HOME=/home/u", "XDG_RUNTIME_DIR=/run/user/1000",
		"CONTAINERS_STORAGE_CONF=/s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHints(t *testing.T) {
	for text, part := range map[string]string{
		`Error: localhost/x: image not known`:                        "aisb image build",
		`Error: could not find pasta, the network namespace can't…`:  "install passt",
		`cannot find UID/GID for user x: no subuid ranges found for`: "usermod --add-subuids",
		// podman 5.4.2 with crun 1.21
		"Error: OCI runtime error: crun: controller `pids` is not available under /sys/fs/cgroup/x/cgroup.controllers":                        "--pids-limit 0",
		"Error: OCI runtime error: crun: controller `cpu` is not available under /sys/fs/cgroup/x/cgroup.controllers":                         "without --cpus",
		"Error: crun: opening file `memory.max` for writing: No such file or directory: OCI runtime attempted to invoke a command that was n": "without --memory",
		"Error: could not find pasta, the network namespace can't be configured: exec: \"pasta\": executable file not found in $PATH":         "install passt",
		"Error: pasta failed with exit code 1:\nFailed to open /dev/null: Too many open files":                                                "ulimit -n",
		"Error: crun: setrlimit `RLIMIT_CORE`: Operation not permitted: OCI permission denied":                                                "ulimit",
		`something new`: "",
	} {
		if got := Hint(text); !strings.Contains(got, part) || (part == "" && got != "") {
			t.Errorf("%q: got %q, want %q in it", text, got, part)
		}
	}
}

func TestLimitsThatTheHostCantEnforce(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/self/cgroup":                     "1:name=systemd:/x\n0::/a/b\n",
		"sys/fs/cgroup/a/b/cgroup.controllers": "pids cpu\n",
		"sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers": "memory pids\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := Controllers(root, false, 1000)
	if !slices.Equal(own, []string{"pids", "cpu"}) {
		t.Errorf("own cgroup: %q", own)
	}
	if got := Controllers(root, true, 1000); !slices.Equal(got, []string{"memory", "pids"}) {
		t.Errorf("systemd's: %q", got)
	}
	if got := Controllers(t.TempDir(), true, 1000); got != nil {
		t.Errorf("cgroup v1: %q", got)
	}
	got, missing := Limits{Pids: "10", Memory: "1g", Shm: "1m"}.Enforceable(own)
	if got != (Limits{Pids: "10", Shm: "1m"}) || len(missing) != 1 || !strings.Contains(missing[0], "--memory 1g") {
		t.Errorf("got %+v, %q", got, missing)
	}
}

// 0 would let a handler in a pipe have the core, and more than the user's own
// limit can't be had.
func TestCoreLimit(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/sys/kernel"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pattern string
		hard    uint64
		want    string
	}{
		{"core", 0, "core=0:0"}, {"core", 1, "core=1:1"}, {"|/usr/lib/handler %p", 1 << 40, "core=1:1"},
		{"|/usr/lib/handler %p", 0, ""}, {"@/run/socket", 0, ""},
	} {
		if err := os.WriteFile(filepath.Join(root, "proc/sys/kernel/core_pattern"), []byte(c.pattern+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		limit, err := CoreLimit(root, c.hard)
		if c.want == "" {
			if !errors.Is(err, ErrCore) {
				t.Errorf("%+v: %q, %v", c, limit, err)
			}
			continue
		}
		if got := (Limits{Core: limit}).core(); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// No limit is nothing that a host could fail to enforce.
func TestNoLimitNeedsNoController(t *testing.T) {
	if l, missing := (Limits{Pids: "0", Memory: "0", CPUs: "0"}).Enforceable(nil); l != (Limits{}) || missing != nil {
		t.Errorf("%+v, %q", l, missing)
	}
	if l, missing := (Limits{Pids: "0"}).Enforceable([]string{"pids"}); l.Pids != "0" || missing != nil {
		t.Errorf("%+v, %q: podman has a limit of its own where none is named", l, missing)
	}
}
