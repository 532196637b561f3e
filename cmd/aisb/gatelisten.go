package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/aisb-dev/aisb/gate"
)

// clients are those who may use the gate at these addresses.
func (o *gateOptions) clients(addrs []netip.AddrPort) (gate.Clients, error) {
	c := gate.Clients{UID: os.Getuid()}
	for _, text := range o.allowClients {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return c, usageError("aisb gate", fmt.Errorf("--allow-client %q is no network such as 10.88.0.0/16", text))
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 { // clients are compared as IPv4
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		c.Allow = append(c.Allow, p.Masked())
	}
	for _, text := range o.allowUsers {
		uid, err := findUser(text)
		if err != nil {
			return c, &exitError{code: exitUsage, err: fmt.Errorf("--allow-user: %w", err), hint: "give the user's name or number, see 'id -u USER'"}
		}
		c.Users = append(c.Users, uid)
	}
	for _, a := range addrs {
		if !a.Addr().IsLoopback() && len(c.Allow) == 0 {
			return c, &exitError{code: exitUsage,
				err:  fmt.Errorf("%s can be reached from other machines", a),
				hint: "say who may use it: --allow-client CIDR"}
		}
	}
	return c, nil
}

// findUser returns the number of a user.
func findUser(text string) (int, error) {
	if uid, err := strconv.ParseUint(text, 10, 32); err == nil {
		return int(uid), nil
	}
	found, err := user.Lookup(text)
	if err != nil {
		return 0, fmt.Errorf("there is no user %q", text)
	}
	return strconv.Atoi(found.Uid)
}

// parseListen reads IP:PORT. A name could mean several addresses.
func parseListen(flag, text string) (netip.AddrPort, error) {
	given := text
	if port, found := strings.CutPrefix(text, "localhost:"); found {
		text = "127.0.0.1:" + port
	}
	if strings.HasPrefix(text, ":") {
		text = "[::]" + text
	}
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return addr, &exitError{code: exitUsage, err: fmt.Errorf("%s %q is not IP:PORT", flag, given),
			hint: fmt.Sprintf("for example %s 127.0.0.1:3128", flag)}
	}
	return addr, nil
}

// firstActivated is where systemd's descriptors begin (sd_listen_fds(3)).
const firstActivated = 3

// activated takes the sockets that systemd has opened for this process, and
// takes the news of them out of the environment: they are nobody else's. There
// are none when the variables are another process's.
func activated() ([]*net.TCPListener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS is %q, expected a number", count)
	}
	var list []*net.TCPListener
	for fd := firstActivated; fd < firstActivated+int(n); fd++ {
		syscall.CloseOnExec(fd)
		// With Accept=yes it would be a client's connection.
		listens, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		if err != nil || listens == 0 {
			return nil, fmt.Errorf("descriptor %d of LISTEN_FDS is no socket that listens", fd)
		}
		file := os.NewFile(uintptr(fd), "LISTEN_FD_"+strconv.Itoa(fd))
		ln, err := net.FileListener(file) // a duplicate
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("use descriptor %d of LISTEN_FDS: %w", fd, err)
		}
		tcp, ok := ln.(*net.TCPListener)
		if !ok {
			return nil, fmt.Errorf("descriptor %d of LISTEN_FDS listens at %s %s, expected TCP", fd, ln.Addr().Network(), ln.Addr())
		}
		list = append(list, tcp)
	}
	return list, nil
}

// listeners are systemd's sockets, or the one of --listen. Nothing is accepted
// before Serve.
func (o *gateOptions) listeners() ([]*net.TCPListener, error) {
	list, err := activated()
	switch {
	case err != nil:
		return nil, &exitError{code: 1, err: err, hint: "the socket unit needs ListenStream=IP:PORT and Accept=no"}
	case len(list) > 0 && o.listenGiven:
		return nil, usageError("aisb gate", errors.New("systemd gives the sockets, so --listen can't count; leave one of them out"))
	case len(list) > 0:
		return list, nil
	}
	addr, err := parseListen("--listen", o.listen)
	if err != nil {
		return nil, err
	}
	if _, err := o.clients([]netip.AddrPort{addr}); err != nil {
		return nil, err // before anyone could connect
	}
	ln, err := gate.ListenConfig().Listen(context.Background(), "tcp", addr.String())
	if err != nil {
		return nil, listenError("--listen", err)
	}
	return []*net.TCPListener{ln.(*net.TCPListener)}, nil
}

func listenError(flag string, err error) error {
	hint := "choose another address: " + flag + " 127.0.0.1:0 takes a free port"
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		hint = "'ip address' shows the addresses of this machine"
	}
	return &exitError{code: 1, err: fmt.Errorf("listen: %w", err), hint: hint}
}

// addrsOf are the addresses of listeners.
func addrsOf(list []*net.TCPListener) []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(list))
	for i, ln := range list {
		a := ln.Addr().(*net.TCPAddr).AddrPort()
		addrs[i] = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return addrs
}
