//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func descriptorClaims() []claim {
	return []claim{
		{"a1", "a socket pair's end passed by --preserve-fds=1 is descriptor 3 of the container's first process, and the kernel names that process by its pid on the host", claimHello},
		{"a2", "pipes made in the container work on the host", claimPipes},
		{"a3", "a terminal made in the container works on the host, and its new size reaches the container", claimTerminal},
		{"a4", "a listener made in a container without a network is served on the host", claimListener},
		{"a5", "a nfnetlink socket made in the container answers the host's ordinary user, also after the container's end", claimNetlink},
		{"a6", "by such a socket the host's ordinary user changes a set in the container, and nothing once another has changed something", claimSet},
	}
}

func claimHello(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	t.saw("hello from host pid %d", b.pid)
	out, _, err := t.podman("container", "inspect", "--format", "{{.State.Pid}}", b.name)
	if err != nil {
		return err
	}
	t.saw("%s", out)
	if out != strconv.Itoa(b.pid) {
		return errors.New("podman's pid is another")
	}
	a, err := t.sh(b, "grep -E 'NSpid|NoNewPrivs' /proc/1/status; grep . /proc/1/uid_map; id")
	if err == nil && !strings.Contains(a.Out, "NoNewPrivs:\t1") {
		err = errors.New("no_new_privs is not set")
	}
	return err
}

func claimPipes(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	_, files, err := b.ask(question{Op: opPipes, Argv: []string{"/bin/sh", "-c", "tr a-z A-Z"}})
	if err != nil || len(files) != 2 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	stdin, stdout := files[0], files[1]
	if _, err := io.WriteString(stdin, "through the pipe"); err != nil {
		return err
	}
	stdin.Close()
	out, err := io.ReadAll(stdout)
	t.saw("%q", out)
	if err == nil && string(out) != "THROUGH THE PIPE" {
		err = errors.New("something else came back")
	}
	return err
}

func claimTerminal(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	script := `trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done`
	_, files, err := b.ask(question{Op: opPTY, Argv: []string{"/bin/sh", "-c", script}})
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	master := files[0]
	defer master.Close()
	lines := bufio.NewScanner(master)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready") {
		return fmt.Errorf("from the terminal: %q, %v", lines.Text(), lines.Err())
	}
	start := time.Now()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 111}); err != nil {
		return err
	}
	if !lines.Scan() {
		return fmt.Errorf("after the change of size: %v", lines.Err())
	}
	t.saw("size there, %d ms after the change here: %s", time.Since(start).Milliseconds(), lines.Text())
	if strings.TrimSpace(lines.Text()) != "33 111" {
		return errors.New("another size")
	}
	return nil
}

func claimListener(t *trial) error {
	b, err := t.start(plan{network: "none"})
	if err != nil {
		return err
	}
	a, files, err := b.ask(question{Op: opListen, Addr: "127.0.0.1:3128"})
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	ln, err := net.FileListener(files[0])
	if err != nil {
		return err
	}
	defer ln.Close()
	go func() { // ends with the listener or its only client
		if c, err := ln.Accept(); err == nil {
			fmt.Fprintln(c, "hello from the host")
			c.Close()
		}
	}()
	t.saw("the container listens on %s", a.Out)
	got, err := t.sh(b, `ip -brief link; python3 -c 'import socket; print(socket.create_connection(("127.0.0.1", 3128)).makefile().read())'`)
	if err == nil && !strings.Contains(got.Out, "hello from the host") {
		err = errors.New("the host did not answer")
	}
	return err
}

func claimNetlink(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	if _, err := t.sh(b, "nft add table inet aisb && nft list tables"); err != nil {
		return err
	}
	_, files, err := b.ask(question{Op: opNetlink})
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%d files: %w", len(files), err)
	}
	defer files[0].Close()
	for _, when := range []string{"while it runs", "after its end"} {
		id, err := generation(int(files[0].Fd()))
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		t.saw("uid %d on the host, %s: ruleset generation %d", os.Getuid(), when, id)
		if when == "while it runs" {
			_ = b.stop() // ends with the agent's status
		}
	}
	return nil
}

// generation asks nf_tables for the generation of its ruleset, which every
// change makes larger (NFT_MSG_GETGEN).
func generation(fd int) (uint32, error) {
	const getGen, attrID = 16, 1 // NFT_MSG_GETGEN, NFTA_GEN_ID of linux/netfilter/nf_tables.h
	request := make([]byte, unix.NLMSG_HDRLEN+4)
	ne := nativeEndian
	ne.PutUint32(request[0:], uint32(len(request)))
	ne.PutUint16(request[4:], unix.NFNL_SUBSYS_NFTABLES<<8|getGen)
	ne.PutUint16(request[6:], unix.NLM_F_REQUEST)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return 0, err
	}
	reply = reply[:n]
	const body = unix.NLMSG_HDRLEN + 4
	if len(reply) < body+8 || ne.Uint16(reply[body+2:]) != attrID {
		return 0, fmt.Errorf("unexpected answer % x", reply)
	}
	// Attributes of netfilter are in network order.
	return uint32(reply[body+4])<<24 | uint32(reply[body+5])<<16 | uint32(reply[body+6])<<8 | uint32(reply[body+7]), nil
}
