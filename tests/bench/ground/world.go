package ground

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// Ground is the namespaces, joined, with origin and name server running.
type Ground struct {
	origin *exec.Cmd
	stdin  io.Closer
	dns    *fakes.DNS
}

// Build joins the two namespaces by a pair of veth devices and starts what
// answers there. It needs Enter.
func Build() (*Ground, error) {
	origin := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{originName}, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL},
	}
	in, err1 := origin.StdinPipe()
	out, err2 := origin.StdoutPipe()
	if err := errors.Join(err1, err2, Start(origin, false)); err != nil {
		return nil, err
	}
	g := &Ground{origin: origin, stdin: in}
	err := ip("link set lo up",
		fmt.Sprintf("link add near type veth peer name far netns %d", origin.Process.Pid),
		"addr add 10.99.0.1/30 dev near", "link set near up")
	if err == nil {
		err = tune()
	}
	if err == nil {
		fmt.Fprintln(in, "go")
		var line string
		if line, err = bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			err = fmt.Errorf("the origin is not ready: %q, %v", line, err)
		}
	}
	if err == nil {
		err = ip("route add default via 10.99.0.2")
	}
	if err == nil {
		zone := fakes.Zone{Host: {Addrs: []netip.Addr{netip.MustParseAddr(Address)}, TTL: 3600}}
		g.dns, err = fakes.StartDNS(DNS, zone, nil)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close ends what Build started.
func (g *Ground) Close() {
	if g.dns != nil {
		g.dns.Close()
	}
	g.stdin.Close()
	g.origin.Wait()
}

// tune lets many connections come and go in short time: ports are left to
// clients as far as possible, and few closed connections wait for stray packets,
// which there are none of here. Otherwise the search for a free port would grow
// with what was measured before.
func tune() error {
	for name, value := range map[string]string{
		"ip_local_port_range": "2000 65000", "tcp_max_tw_buckets": "512", "tcp_tw_reuse": "1",
		"tcp_max_syn_backlog": "8192",
	} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}
