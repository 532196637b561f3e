//go:build e2e

// Package e2e runs the real aisb with real podman, pasta and nftables. Only the
// internet is fake: a network namespace with name server and origins under
// public-looking addresses.
//
// It needs root, to make namespaces, and an ordinary user with rootless podman
// to run aisb as: AISB_E2E_USER, or the user behind sudo. The project's lab
// (tests/lab) has both.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// The world of all tests, made once.
var (
	internet  *world
	agent     *hostUser
	testImage string // a small Debian with curl, python3, git and nft
	binary    string // the aisb under test
	faulty    string // the same with build tag faults
	other     string // the same with another version
	backend   string // of runs whose test names none
	xdg       string // aisb's own state and cache, of these tests alone
)

// hostUser is the ordinary user that runs aisb.
type hostUser struct {
	name     string
	uid, gid int
	groups   []uint32
	home     string
	runtime  string
}

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if os.Getenv(attackerVariable) != "" {
		return attackerMain(os.Args[1:])
	}
	if os.Geteuid() != 0 {
		fmt.Println("e2e: needs root to make namespaces: left to 'sudo make e2e'")
		if need.Required("root") {
			return 1
		}
		return 0
	}
	if os.Getenv("AISB_E2E_INSIDE") == "" {
		code, err := enterNamespaces()
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
		return code
	}
	defer tearDown()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: set-up:", err)
		return 1
	}
	before := len(registered())
	code := m.Run()
	return max(code, sweepAfter(before))
}

// tools are the programs that tests/e2e/run builds.
func findTools() (serve string, err error) {
	for name, to := range map[string]*string{
		"AISB_BINARY": &binary, "AISB_FAULTY_BINARY": &faulty, "AISB_OTHER_BINARY": &other, "AISB_FAKES": &serve,
	} {
		*to = os.Getenv(name)
		if !filepath.IsAbs(*to) {
			return "", fmt.Errorf("%s=%q is no absolute path; run 'make e2e'", name, *to)
		}
	}
	if backend = os.Getenv("AISB_E2E_BACKEND"); backend == "" {
		return "", errors.New("AISB_E2E_BACKEND names no backend; run 'make e2e'")
	}
	if testImage = os.Getenv("AISB_E2E_IMAGE"); testImage == "" {
		return "", errors.New("AISB_E2E_IMAGE names no image; run 'make e2e'")
	}
	return serve, nil
}

func setUp() error {
	serve, err := findTools()
	if err != nil {
		return err
	}
	if agent, err = findUser(); err != nil {
		return err
	}
	if xdg, err = agent.makeDir(".aisb-e2e-"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "aisb-e2e-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	internet, err = startWorld(serve, dir)
	return err
}

func tearDown() {
	if internet != nil {
		internet.stop()
	}
	if xdg != "" {
		os.RemoveAll(xdg)
	}
}

// makeDir makes a directory in the user's home.
func (h *hostUser) makeDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp(h.home, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chown(dir, h.uid, h.gid)
}

// findUser is the user to run aisb as.
func findUser() (*hostUser, error) {
	name := os.Getenv("AISB_E2E_USER")
	if name == "" {
		name = os.Getenv("SUDO_USER")
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("AISB_E2E_USER names the ordinary user to run aisb as: %w", err)
	}
	h := &hostUser{name: name, home: u.HomeDir}
	if h.uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, err
	}
	if h.gid, err = strconv.Atoi(u.Gid); err != nil {
		return nil, err
	}
	h.runtime = fmt.Sprintf("/run/user/%d", h.uid)
	if _, err := exec.LookPath("podman"); err != nil {
		return nil, err
	}
	return h, nil
}
