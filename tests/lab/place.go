//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What the lab is made of. Every change gives another hash and so a new root.
const (
	format = "1" // of the root's own configuration, in make.go
	suite  = "trixie"

	userName = "dev"
	userID   = 1000
	userHome = "/home/dev"
)

// rootPackages are the ones beside debootstrap's minbase. debootstrap takes
// dependencies but no recommendations, so podman's are named here.
var rootPackages = []string{
	"podman", "crun", "passt", "uidmap", "nftables", "iproute2", "netavark", "aardvark-dns", "catatonit",
	"fuse-overlayfs", "golang-github-containers-common", "ca-certificates", "curl", "git", "procps", "jq",
	"python3-minimal", "make", "less", "hostname", "util-linux", "bind9-dnsutils", "openssh-client",
}

// basePackages make the base image for sandboxes, in place of one from a
// registry: what the tests call inside.
var basePackages = []string{
	"ca-certificates", "curl", "git", "iproute2", "nftables", "procps", "python3-minimal", "util-linux",
}

// hostCAs is the machine's bundle of certificate authorities, taken over so that
// builds inside reach what the machine reaches.
const hostCAs = "/etc/ssl/certs/ca-certificates.crt"

// lab is the place of one version of the lab.
type lab struct {
	cache string // of all versions
	dir   string // of this version: root, home, base-*.tar, entries
}

func newLab(cache string) (*lab, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, part := range []string{format, suite, strings.Join(rootPackages, " "), strings.Join(basePackages, " ")} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	return &lab{cache: cache, dir: filepath.Join(cache, hex.EncodeToString(h.Sum(nil))[:12])}, nil
}

func (l *lab) root() string    { return filepath.Join(l.dir, "root") }
func (l *lab) home() string    { return filepath.Join(l.dir, "home") }
func (l *lab) entries() string { return filepath.Join(l.dir, "entries") }

// baseTar depends on the machine's certificate authorities, which are in it.
func (l *lab) baseTar() (string, error) {
	bundle, err := os.ReadFile(hostCAs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	sum := sha256.Sum256(bundle)
	return filepath.Join(l.dir, "base-"+hex.EncodeToString(sum[:])[:12]+".tar"), nil
}

// lock takes the lock file path, how as for flock(2), and returns its release.
// When it has to wait, it says for what.
func lock(path string, how int, what string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		say("waiting for %s", what)
		for {
			if err = unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// clean removes all versions, unless one is in use.
func (l *lab) clean() error {
	dirs, err := filepath.Glob(filepath.Join(l.cache, "*", "entries"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		version := &lab{cache: l.cache, dir: filepath.Dir(dir)}
		if err := version.sweep(); err != nil {
			return err
		}
		left, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%s is in use: end what runs in the lab first", version.dir)
		}
	}
	return os.RemoveAll(l.cache)
}
