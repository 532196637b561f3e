//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func pastaClaims() []claim {
	return []claim{
		{"f1", "pasta runs with the options asked for; podman adds only --config-net, --dns-forward, --quiet and --netns", claimPastaArguments},
		{"f2", "a run's own pasta is found by the inode of the network namespace, and its cmdline and descriptors can be read by the user", claimPastaFound},
		{"f3", "the mapped address is the host's 127.0.0.1 and nothing else of the container's is", claimMapped},
		{"f4", "a connection's socket on the host is among the descriptors of the run's own pasta", claimOwner},
		{"f5", "::1 can be mapped as well, to an address of the container's choice", claimMapped6},
		{"f6", "--dns-forward can't be switched off: none is refused", claimNoDNS},
		{"f7", "pasta takes a pid file as another mark", claimPidFile},
		{"f8", "an upload to a receiver on the host that is slower than the sender: rate and longest pause, with the kernel's own send buffer and with a bounded one (seen, not judged)", claimUpload},
	}
}

// findPasta finds the pasta of the network namespace that process pid is in.
// podman names its namespaces in a mount namespace of its own, where conmon, the
// parent of a container's first process, lives too.
func findPasta(pid int) (int, []string) {
	want := inode(fmt.Sprintf("/proc/%d/ns/net", pid))
	root := fmt.Sprintf("/proc/%d/root", parent(pid))
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err != nil {
			continue
		}
		argv := strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
		i := slices.Index(argv, "--netns")
		if !strings.HasPrefix(filepath.Base(argv[0]), "pasta") || i < 0 || i+1 == len(argv) {
			continue
		}
		if got := inode(root + argv[i+1]); got != 0 && got == want {
			found, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
			return found, argv
		}
	}
	return 0, nil
}

func inode(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

func claimPastaArguments(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	_, argv := findPasta(b.pid)
	t.saw("%s", strings.Join(argv, " "))
	got := " " + strings.Join(argv, " ") + " "
	for _, option := range []string{
		"--map-host-loopback " + loopback, "--map-guest-addr none", "-t none", "-u none", "-T none", "-U none", "--no-map-gw",
	} {
		if !strings.Contains(got, " "+option+" ") {
			return fmt.Errorf("%s is missing", option)
		}
		got = strings.ReplaceAll(got, " "+option+" ", " ")
	}
	rest := strings.Fields(got)[1:]
	t.saw("added by podman: %s", strings.Join(rest, " "))
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case "--config-net", "--quiet":
		case "--dns-forward", "--netns":
			i++
		default:
			return fmt.Errorf("unknown addition %q", rest[i])
		}
	}
	return nil
}

func claimPastaFound(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	pid, _ := findPasta(b.pid)
	if pid == 0 {
		return errors.New("not found")
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	t.saw("/proc/%d: comm %s, %d descriptors", pid, strings.TrimSpace(string(comm)), len(fds))
	t.saw("/proc/%d/ns/net is %d, the container's %d: pasta stays in the host's",
		pid, inode(fmt.Sprintf("/proc/%d/ns/net", pid)), inode(fmt.Sprintf("/proc/%d/ns/net", b.pid)))
	return err
}

// hostServer listens on the host and says its name to each client.
func hostServer(network, addr string) (*net.TCPListener, int, error) {
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, 0, err
	}
	go func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "host")
			c.Close()
		}
	}()
	return ln.(*net.TCPListener), ln.Addr().(*net.TCPAddr).Port, nil
}

func claimMapped(t *trial) error {
	all, port, err := hostServer("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	defer all.Close()
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	t.saw("a server listens on all of the host's addresses, port %d", port)
	gateway, err := t.sh(b, "ip -4 route show default | sed 's/.*via //; s/ .*//'")
	if err != nil {
		return err
	}
	own, err := t.sh(b, "ip -4 -brief addr show scope global | awk '{print $3}' | cut -d/ -f1")
	if err != nil {
		return err
	}
	reached := map[string]bool{}
	for _, door := range []struct{ name, addr string }{
		{"the mapped address", loopback}, {"the gateway", gateway.Out}, {"podman's host address", guestAddr},
		{"podman's DNS address", dnsAddr}, {"the host's own address", own.Out}, {"127.0.0.1", "127.0.0.1"},
	} {
		a, _, err := b.ask(question{Op: opDial, Net: "tcp4", Addr: net.JoinHostPort(door.addr, strconv.Itoa(port))})
		if err != nil {
			return err
		}
		t.saw("%s %s: %s", door.name, door.addr, a.outcome())
		reached[door.name] = a.Errno == 0
	}
	if !reached["the mapped address"] {
		return errors.New("the mapped address doesn't lead to the host")
	}
	delete(reached, "the mapped address")
	for name, yes := range reached {
		if yes {
			return fmt.Errorf("%s leads to the host", name)
		}
	}
	return nil
}

// outcome is an answer to a dial in words.
func (a answer) outcome() string {
	if a.Errno == 0 {
		return fmt.Sprintf("connected after %.1f ms", float64(a.Micros)/1000)
	}
	return fmt.Sprintf("%s after %.1f ms", unix.ErrnoName(a.Errno), float64(a.Micros)/1000)
}

func claimMapped6(t *trial) error {
	const mapped = "fd77::1"
	ln, port, err := hostServer("tcp6", "[::1]:0")
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.saw("not tried: this host has no ::1")
		return nil
	}
	if err != nil {
		return err
	}
	defer ln.Close()
	network := strings.Replace(pastaNet, ",--map-guest-addr", ",--map-host-loopback,"+mapped+",--map-guest-addr", 1)
	b, err := t.start(plan{network: network})
	if err != nil {
		return err
	}
	if _, err := t.sh(b, "ip -6 route show; ip -6 -brief addr show scope global"); err != nil {
		return err
	}
	a, _, err := b.ask(question{Op: opDial, Net: "tcp6", Addr: net.JoinHostPort(mapped, strconv.Itoa(port))})
	t.saw("%s: %s", mapped, a.outcome())
	if err == nil && a.Errno == unix.ENETUNREACH {
		t.saw("the container has no route to it, since the host has none over IPv6")
		return nil
	}
	if err == nil && a.Errno != 0 {
		err = errors.New("not reached")
	}
	return err
}

func claimNoDNS(t *trial) error {
	_, err := t.start(plan{network: pastaNet + ",--dns-forward,none"})
	t.saw("%v", err)
	if err == nil {
		return errors.New("it was taken")
	}
	return nil
}

func claimPidFile(t *trial) error {
	file := t.env.dir + "/pasta.pid"
	b, err := t.start(plan{network: pastaNet + ",-P," + file})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pid, _ := findPasta(b.pid)
	t.saw("%s holds %s, the pasta found by its namespace is %d", file, strings.TrimSpace(string(text)), pid)
	if strings.TrimSpace(string(text)) != strconv.Itoa(pid) {
		return errors.New("another process")
	}
	return nil
}
