package podman

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A configuration directory holds the only configuration that podman gets. It
// is named by its content and never changed, because conmon runs podman once
// more, with the same environment, to clean up after a container whose aisb is
// long gone.
const (
	fileConf   = ConfName
	fileMounts = "mounts.conf"
	fileHosts  = "hosts"
	fileResolv = "resolv.conf"
	dirHooks   = "hooks.d"
)

// ConfName is the name of containers.conf(5) in a configuration directory.
const ConfName = "containers.conf"

// Hostname is the container's, resolved by its own hosts file.
const Hostname = "aisb"

// confFiles are the files of a configuration directory by name. dir is where
// they will lie, systemd whether the user has a systemd session to ask for
// cgroups.
func confFiles(dir string, systemd bool) map[string]string {
	manager := "cgroupfs"
	if systemd {
		manager = "systemd"
	}
	return map[string]string{
		fileConf: fmt.Sprintf(`# made by aisb: the whole configuration of its podman
[containers]
annotations = []
default_sysctls = []
devices = []
env = []
env_host = false
http_proxy = false
init = false
mounts = []
volumes = []

[engine]
cgroup_manager = %q
events_logger = "none"
hooks_dir = [%q]
remote = false

[network]
pasta_options = []
`, manager, filepath.Join(dir, dirHooks)),
		fileMounts: "",
		// No name server: the C libraries then ask 127.0.0.1, where nothing
		// listens, and the look-up fails at once (resolv.conf(5)).
		fileResolv: "# made by aisb: there is no resolver in here, the gate resolves\noptions timeout:1 attempts:1\n",
		fileHosts:  "127.0.0.1\tlocalhost " + Hostname + "\n::1\tlocalhost ip6-localhost " + Hostname + "\n",
	}
}

// Conf is a configuration directory that exists and holds what it must.
type Conf struct{ dir string }

// Hosts is the path of the container's /etc/hosts.
func (c Conf) Hosts() string { return filepath.Join(c.dir, fileHosts) }

// Resolv is the path of the container's /etc/resolv.conf.
func (c Conf) Resolv() string { return filepath.Join(c.dir, fileResolv) }

// Dir is the directory itself.
func (c Conf) Dir() string { return c.dir }

// FindConf is the configuration directory under parent. It makes and checks nothing.
func FindConf(parent string, systemd bool) Conf {
	return Conf{dir: filepath.Join(parent, "podman-"+confHash(systemd))}
}

// EnsureConf makes the configuration directory under parent, or checks the one
// that is there, byte for byte. It returns an error when a file differs, since
// someone else then wrote there.
func EnsureConf(parent string, systemd bool) (Conf, error) {
	conf := FindConf(parent, systemd)
	name, dir := filepath.Base(conf.dir), conf.dir
	files := confFiles(dir, systemd)
	err := conf.check(files)
	if !errors.Is(err, fs.ErrNotExist) {
		return conf, err
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return Conf{}, fmt.Errorf("make configuration of podman: %w", err)
	}
	// Built aside and renamed, so that two first runs at once both win.
	tmp, err := os.MkdirTemp(parent, name+".new-")
	if err != nil {
		return Conf{}, fmt.Errorf("make configuration of podman: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := writeConf(tmp, files); err != nil {
		return Conf{}, fmt.Errorf("make configuration of podman: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return Conf{}, fmt.Errorf("make configuration of podman: %w", err)
	}
	return conf, conf.check(files)
}

// confHash names the content. The directory's own path is part of the files,
// so a fixed one stands in for it.
func confHash(systemd bool) string {
	h := sha256.New()
	files := confFiles("/", systemd)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(h, "%d %s %d %s\n", len(name), name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func writeConf(dir string, files map[string]string) error {
	if err := os.Mkdir(filepath.Join(dir, dirHooks), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755) // container root, another uid, follows the bind mounts' paths
}

// check compares the directory with files; fs.ErrNotExist when there is none.
func (c Conf) check(files map[string]string) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	seen := 0
	for _, e := range entries {
		path := filepath.Join(c.dir, e.Name())
		if e.Name() == dirHooks {
			hooks, err := os.ReadDir(path)
			if err != nil || len(hooks) > 0 {
				return fmt.Errorf("configuration of podman: %s is not an empty directory (%v)", path, err)
			}
			continue
		}
		want, known := files[e.Name()]
		got, err := os.ReadFile(path)
		if err != nil || !known || string(got) != want {
			return fmt.Errorf("configuration of podman: %s is not what aisb wrote; remove %s", path, c.dir)
		}
		seen++
	}
	if seen != len(files) {
		return fmt.Errorf("configuration of podman: files are missing; remove %s", c.dir)
	}
	return nil
}

// kept are the variables of the user's environment that podman needs to find
// its storage, its helpers and its cgroup. Nothing else passes: CONTAINER_HOST,
// CONTAINERS_*, *_proxy and the like would change what runs.
var kept = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR",
	"XDG_RUNTIME_DIR", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
	// where the images are is the user's to say
	"CONTAINERS_STORAGE_CONF", "XDG_CONFIG_HOME",
}

// globalArgs are podman's arguments before the command. An own mounts file
// takes the place of the system's and the user's mounts.conf; it can be named
// by this hidden flag alone (containers/common: DefaultMountsFile, toml "-").
func (c Conf) globalArgs() []string {
	return []string{
		"--remote=false",
		"--default-mounts-file=" + filepath.Join(c.dir, fileMounts),
		"--hooks-dir=" + filepath.Join(c.dir, dirHooks),
	}
}

// Environ is podman's whole environment, made from the user's.
func (c Conf) Environ(user []string) []string {
	env := []string{"CONTAINERS_CONF=" + filepath.Join(c.dir, fileConf)}
	for _, kv := range user {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(kept, name) {
			env = append(env, kv)
		}
	}
	return env
}
