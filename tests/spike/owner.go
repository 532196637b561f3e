//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func claimOwner(t *trial) error {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	var boxes [2]*box
	for i := range boxes {
		if boxes[i], err = t.start(plan{}); err != nil {
			return err
		}
	}
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	script := fmt.Sprintf(`import socket; s = socket.create_connection(("%s", %s)); s.recv(1)`, loopback, port)
	if _, _, err := boxes[0].ask(question{Op: opPipes, Argv: []string{"/usr/bin/python3", "-c", script}}); err != nil {
		return err
	}
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second))
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	client := c.RemoteAddr().(*net.TCPAddr)
	socket, uid, err := tcpSocket(client.Port)
	if err != nil {
		return err
	}
	t.saw("two containers; one connects: peer %s, socket inode %d, uid %d", client, socket, uid)
	for i, want := range []bool{true, false} {
		pasta, _ := findPasta(boxes[i].pid)
		has := holdsSocket(pasta, socket)
		t.saw("pasta %d of container %d has it: %v", pasta, i+1, has)
		if has != want {
			return errors.New("ownership is not told apart")
		}
	}
	return nil
}

// tcpSocket finds the inode and owner of the socket with a local port
// (proc_pid_net(5)).
func tcpSocket(port int) (inode uint64, uid int, err error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
			inode, _ = strconv.ParseUint(fields[9], 10, 64)
			uid, _ = strconv.Atoi(fields[7])
			return inode, uid, nil
		}
	}
	return 0, 0, errors.New("no such socket")
}

func holdsSocket(pid int, socket uint64) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		to, err := os.Readlink(link)
		return err == nil && to == fmt.Sprintf("socket:[%d]", socket)
	})
}
