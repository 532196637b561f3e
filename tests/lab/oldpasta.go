//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// oldPasta makes an older pasta(1) out of this machine's own package and returns
// the directory that it is in. It is for tests of what older distributions have,
// and so only there where this machine is one: Debian 12 (2023-03), Ubuntu 24.04
// (2024-02). It is not installed.
func (l *lab) oldPasta() (string, error) {
	dir := filepath.Join(l.cache, "old-pasta")
	binary := filepath.Join(dir, "pasta")
	if exists(binary) {
		return dir, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("this machine has no apt-get")
	}
	part, err := os.MkdirTemp(l.cache, "old-pasta-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	if err := tool("/bin/sh", "-ec", `cd "$0"; apt-get -qq -o APT::Sandbox::User=root download passt; dpkg-deb -x *.deb .`, part); err != nil {
		return "", err
	}
	// Of the two programs in one, its name makes it pasta. Without a file beside
	// it that is made for newer processors it stays this one.
	if err := os.Rename(part+"/usr/bin/passt", part+"/pasta"); err != nil {
		return "", err
	}
	help, _ := exec.Command(part+"/pasta", "--help").CombinedOutput() // some versions end with an error after it
	if !strings.Contains(string(help), "--config-net") || strings.Contains(string(help), "--map-host-loopback") {
		return "", errors.New("this machine's pasta is no older one")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(part+"/pasta", binary)
}
