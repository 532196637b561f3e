package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testHost is a host whose home is a new directory.
func testHost(t *testing.T) Host {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(base, "home")
	h := Host{
		Home: home, ConfigHome: home + "/.config", DataHome: home + "/.local/share",
		CacheHome: home + "/.cache", StateHome: home + "/.local/state", RuntimeDir: base + "/runtime",
		StorageRoots: []string{home + "/.local/share/containers", base + "/graph"},
		UID:          os.Getuid(),
	}
	mkdir(t, home+"/code/project")
	return h
}

func mkdir(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// plan makes a plan that must succeed.
func plan(t *testing.T, h Host, o Options) *Plan {
	t.Helper()
	p, err := Make(h, o)
	if err != nil {
		t.Fatalf("Make(%+v): %v", o, err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// wantRefusal makes a plan that must be refused with reason in its text and a
// hint that says hint.
func wantRefusal(t *testing.T, h Host, o Options, reason, hint string) {
	t.Helper()
	p, err := Make(h, o)
	if err == nil {
		p.Close()
		t.Fatalf("Make(%+v) succeeded, want a refusal with %q", o, reason)
	}
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("Make(%+v): %v is not a Refusal", o, err)
	}
	if !strings.Contains(r.Reason, reason) || !strings.Contains(r.Hint, hint) || r.Hint == "" {
		t.Errorf("Make(%+v):\nreason %q, want %q in it\n  hint %q, want %q in it", o, r.Reason, reason, r.Hint, hint)
	}
}

func TestHostFrom(t *testing.T) {
	home := t.TempDir()
	write(t, home+"/.config/containers/storage.conf", "[storage]\ndriver = \"overlay\"\ngraphroot = \"/data/images\"\n# runroot = \"/no\"\n")
	write(t, home+"/other.conf", "rootless_storage_path = \"$HOME/x\"\nrunroot='/data/run'\n")
	env := map[string]string{
		"HOME": home, "XDG_DATA_HOME": "relative/is/ignored", "XDG_CACHE_HOME": "/c", "XDG_RUNTIME_DIR": "/run/user/7",
		"CONTAINERS_STORAGE_CONF":  home + "/other.conf",
		"SSH_AUTH_SOCK":            "/run/ssh",
		"DOCKER_HOST":              "unix:///run/d.sock",
		"CONTAINER_HOST":           "ssh://core@host/run/podman.sock",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus,guid=0",
		"GPG_AGENT_INFO":           "/run/gpg:1:2",
	}
	h := HostFrom(func(name string) string { return env[name] }, 7)
	if h.DataHome != home+"/.local/share" || h.CacheHome != "/c" || h.StateHome != home+"/.local/state" || h.RuntimeDir != "/run/user/7" || h.UID != 7 {
		t.Errorf("got %+v", h)
	}
	got := strings.Join(h.StorageRoots, " ") + " "
	for _, want := range []string{home + "/.local/share/containers ", "/var/lib/containers ", "/data/images ", "/data/run "} {
		if !strings.Contains(got, want) {
			t.Errorf("storage roots %q lack %q", got, want)
		}
	}
	if strings.Contains(got, "/no") || strings.Contains(got, "$") {
		t.Errorf("storage roots %q hold a comment or a variable", got)
	}
	if got, want := strings.Join(h.Sockets, " "), "/run/ssh /run/gpg /run/d.sock /run/bus"; got != want {
		t.Errorf("sockets %q, want %q", got, want)
	}
}
