package mounts

import (
	"os"
	"path/filepath"
	"strings"
)

// HostFrom gathers the facts about the host from the environment, as getenv
// sees it, and the user's storage.conf.
func HostFrom(getenv func(string) string, uid int) Host {
	home := getenv("HOME")
	xdg := func(name, def string) string {
		// A relative value is to be ignored (XDG Base Directory Specification).
		if dir := getenv(name); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(home, def)
	}
	h := Host{
		Home:       home,
		ConfigHome: xdg("XDG_CONFIG_HOME", ".config"),
		DataHome:   xdg("XDG_DATA_HOME", ".local/share"),
		CacheHome:  xdg("XDG_CACHE_HOME", ".cache"),
		StateHome:  xdg("XDG_STATE_HOME", ".local/state"),
		RuntimeDir: getenv("XDG_RUNTIME_DIR"),
		UID:        uid,
	}
	h.StorageRoots = []string{
		filepath.Join(h.DataHome, "containers"), filepath.Join(h.DataHome, "docker"),
		"/var/lib/containers", "/var/lib/docker", "/var/lib/containerd",
	}
	confs := []string{"/etc/containers/storage.conf", filepath.Join(h.ConfigHome, "containers/storage.conf")}
	if name := getenv("CONTAINERS_STORAGE_CONF"); name != "" {
		confs = append(confs, name)
	}
	for _, name := range confs {
		if b, err := os.ReadFile(name); err == nil {
			h.StorageRoots = append(h.StorageRoots, storageRoots(string(b))...)
		}
	}
	for _, name := range []string{"SSH_AUTH_SOCK", "SSH_AGENT_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"} {
		if path := socketPath(getenv(name)); path != "" {
			h.Sockets = append(h.Sockets, path)
		}
	}
	return h
}

// socketPath is the path in the forms that these variables use: a bare path,
// unix:///path, unix:path=/path,guid=..., /path:0:1.
func socketPath(value string) string {
	value = strings.TrimPrefix(value, "unix://")
	value = strings.TrimPrefix(value, "unix:path=")
	value, _, _ = strings.Cut(value, ",")
	value, _, _ = strings.Cut(value, ":")
	if !filepath.IsAbs(value) {
		return ""
	}
	return value
}

// storageRoots reads graphroot, runroot and the rootless path off a
// storage.conf (containers-storage.conf(5)); a path with a variable in it is
// left out, since it is below the data directory in practice.
func storageRoots(conf string) []string {
	var roots []string
	for line := range strings.Lines(conf) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch strings.TrimSpace(key) {
		case "graphroot", "runroot", "rootless_storage_path":
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			if ok && filepath.IsAbs(value) && !strings.Contains(value, "$") {
				roots = append(roots, value)
			}
		}
	}
	return roots
}
