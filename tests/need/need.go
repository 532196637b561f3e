// Package need says what a test needs of the machine. It is the only place
// where a test is skipped: a machine that must have something names it in
// AISB_TEST_REQUIRE (a comma list of podman, userns, nft, lab, root, vm,
// old-pasta, fuse and packages), and there the same test fails instead.
//
// Podman is nobody's need here: the tests that run it are started by scripts,
// which find out beforehand whose podman it is (left_out in tests/where), or that
// it is the lab's.
package need

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Variable names the environment variable.
const Variable = "AISB_TEST_REQUIRE"

var names = []string{"podman", "userns", "nft", "lab", "root", "vm", "old-pasta", "fuse", "packages"}

// UserNS needs leave to make a user namespace and to have rights in it.
func UserNS(t testing.TB) { t.Helper(); must(t, "userns", userNS()) }

// NFT needs the nft program and nf_tables in a network namespace of one's own.
func NFT(t testing.TB) { t.Helper(); must(t, "nft", nft()) }

// Lab needs the project's lab: to be in it, where AISB_LAB is 1, or to be able
// to make and enter it.
func Lab(t testing.TB) { t.Helper(); must(t, "lab", lab()) }

// Root needs uid 0 with the rights to make namespaces and networks.
func Root(t testing.TB) { t.Helper(); must(t, "root", root()) }

// VM needs the emulator of tests/vm.
func VM(t testing.TB) { t.Helper(); must(t, "vm", vm()) }

// Packages needs the programs that read packages, of Debian and of Fedora.
func Packages(t testing.TB) { t.Helper(); must(t, "packages", packages()) }

// Missing is for a need that only the test itself can find out about: it skips
// the test for want of what, one of the names above, or fails it where that is
// required.
func Missing(t testing.TB, what string, why error) {
	t.Helper()
	must(t, what, why)
	t.Fatalf("need: %s is called missing without a reason", what)
}

// Required is for TestMain, which has no test to skip: whether to fail for want
// of what, one of the names above.
func Required(what string) bool {
	v, _ := decide(os.Getenv(Variable), what, errors.New("missing"))
	return v == fails
}

func must(t testing.TB, what string, err error) {
	t.Helper()
	switch verdict, text := decide(os.Getenv(Variable), what, err); verdict {
	case fails:
		t.Fatal(text)
	case skips:
		if err := writeDown(os.Getenv(left), t.Name(), what, text); err != nil {
			t.Fatal(err)
		}
		t.Skip(text)
	}
}

// left names the file in which tests/unit wants to find what was skipped. It is
// asked for only then, so that it is no part of what "go test" caches results by
// where nothing is.
const left = "AISB_TEST_LEFT"

// writeDown adds a line with what happens to the test, its package's directory,
// the reason and its name.
func writeDown(path, test, what, text string) error {
	if path == "" {
		return nil
	}
	pkg, err := os.Getwd() // "go test" starts a test in its package's directory
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	test, _, _ = strings.Cut(test, "/") // many parts of one test lack the same
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\t%s\n", whereElse(what), pkg, text, test)
	return err
}

// whereElse says where a test that what is missing for does run.
func whereElse(what string) string {
	if what == "root" || what == "lab" {
		return "left to 'sudo make test'"
	}
	return "left out"
}

type verdict int

const (
	runs verdict = iota
	skips
	fails
)

// decide is what becomes of a test. A name that nobody knows fails in both
// places, or a slip in a CI file would turn a failure into a skip.
func decide(required, what string, err error) (verdict, string) {
	list := strings.FieldsFunc(required, func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range append(slices.Clone(list), what) {
		if !slices.Contains(names, name) {
			return fails, fmt.Sprintf("need: no need is called %q; there are %s", name, strings.Join(names, " "))
		}
	}
	switch {
	case err == nil:
		return runs, ""
	case slices.Contains(list, what):
		return fails, fmt.Sprintf("%s is required by %s and missing: %v", what, Variable, err)
	}
	return skips, fmt.Sprintf("%s is missing: %v", what, err)
}

// Each is found out once in a test binary.
var userNS = sync.OnceValue(func() error { return output(inNamespaces("true")) })

var nft = sync.OnceValue(func() error {
	path, err := exec.LookPath("nft")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nft") // not in every user's PATH
	}
	if err != nil {
		return err
	}
	if root() == nil {
		cmd := exec.Command(path, "list", "tables")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		return output(cmd)
	}
	return output(inNamespaces(path, "list", "tables"))
})

func lab() error {
	if os.Getenv("AISB_LAB") == "1" {
		return nil
	}
	if err := root(); err != nil {
		return fmt.Errorf("the lab needs root: %w", err)
	}
	_, err := exec.LookPath("debootstrap")
	return err
}

func vm() error {
	_, err := exec.LookPath("qemu-system-x86_64")
	return err
}

func packages() error {
	_, err := exec.LookPath("dpkg-deb")
	_, other := exec.LookPath("rpm")
	return errors.Join(err, other)
}

func root() error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	return isRoot(os.Geteuid(), string(text))
}

// isRoot asks for the rights too, since a container's uid 0 may have none.
func isRoot(uid int, status string) error {
	const sysAdmin, netAdmin = 1 << 21, 1 << 12 // capabilities(7)
	if uid != 0 {
		return fmt.Errorf("uid is %d", uid)
	}
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return err
		}
		if set&sysAdmin == 0 || set&netAdmin == 0 {
			return fmt.Errorf("uid 0 lacks rights: effective capabilities %#x", set)
		}
		return nil
	}
	return errors.New("no CapEff in /proc/self/status")
}

// inNamespaces is a command as root of its own user and network namespace. The
// second shows that the first brings rights, which some distributions deny.
func inNamespaces(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
