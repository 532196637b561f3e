package resolve

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Conf is what resolv.conf(5) says, as far as it matters here: there is no
// search list, since a name means one thing only.
type Conf struct {
	Servers  []Server
	Timeout  time.Duration // of one attempt
	Attempts int           // rounds over all servers
}

// Bounds of what a resolv.conf may ask for, those of glibc or tighter.
const (
	maxServers  = 3
	maxTimeout  = 5 * time.Second
	maxAttempts = 4
)

// defaultConf are the values of resolv.conf(5), with a shorter time-out: a
// lost datagram should not cost five seconds.
func defaultConf() Conf { return Conf{Timeout: 2 * time.Second, Attempts: 2} }

// ParseConf reads a resolv.conf. What it doesn't understand it skips, as every
// resolver does. Without a name server it is the local machine's, on both
// loopback addresses.
func ParseConf(text []byte) Conf {
	c := defaultConf()
	tcp := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			// A link-local server carries its interface as zone.
			addr, err := netip.ParseAddr(fields[1])
			if err == nil && len(c.Servers) < maxServers {
				c.Servers = append(c.Servers, Server{Transport: UDP, Addr: netip.AddrPortFrom(addr, 53)})
			}
		case "options":
			for _, o := range fields[1:] {
				c.option(o)
				tcp = tcp || o == "use-vc"
			}
		}
	}
	if len(c.Servers) == 0 {
		for _, a := range []string{"127.0.0.1", "::1"} {
			c.Servers = append(c.Servers, Server{Transport: UDP, Addr: netip.AddrPortFrom(netip.MustParseAddr(a), 53)})
		}
	}
	for i := range c.Servers {
		if tcp {
			c.Servers[i].Transport = TCP
		}
	}
	return c
}

func (c *Conf) option(text string) {
	name, value, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return
	}
	switch name {
	case "timeout":
		c.Timeout = min(time.Duration(min(n, 60))*time.Second, maxTimeout)
	case "attempts":
		c.Attempts = min(n, maxAttempts)
	}
}

// confFile is a resolv.conf that is read again when it has changed: networks
// come and go while the gate runs.
type confFile struct {
	path string

	mu      sync.Mutex
	checked time.Time
	stamp   fileStamp
	conf    Conf
	loaded  bool
}

// fileStamp changes when the file is rewritten or replaced.
type fileStamp struct {
	mod  time.Time
	size int64
	info os.FileInfo // for os.SameFile: a symbolic link may point elsewhere now
}

// confPath is resolv.conf(5).
const confPath = "/etc/resolv.conf"

// confDirs are where confPath mostly is a link to: of systemd-resolved, NetworkManager,
// resolvconf(8), netconfig and connman. It may become one of them while the gate runs.
var confDirs = []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/netconfig", "/run/connman"}

// Reads tells which files of the host a resolver for servers reads again and again,
// in which other directories they may come to be, and whether it needs the host's
// roots of certificates.
func Reads(servers []Server) (files, dirs []string, roots bool) {
	for _, s := range servers {
		roots = roots || s.Transport == TLS || s.Transport == DoH
	}
	if len(servers) > 0 {
		return nil, nil, roots
	}
	return []string{confPath}, confDirs, false
}

// checkEvery bounds how often the file is looked at.
const checkEvery = time.Second

// get returns the current content. A file that can't be read now keeps the
// last content, or is as if empty.
func (f *confFile) get(now time.Time) Conf {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded && now.Sub(f.checked) < checkEvery {
		return f.conf
	}
	f.checked = now
	info, err := os.Stat(f.path)
	if err != nil {
		if !f.loaded {
			f.conf, f.loaded = ParseConf(nil), true
		}
		return f.conf
	}
	stamp := fileStamp{mod: info.ModTime(), size: info.Size(), info: info}
	if f.loaded && stamp.mod.Equal(f.stamp.mod) && stamp.size == f.stamp.size &&
		f.stamp.info != nil && os.SameFile(info, f.stamp.info) {
		return f.conf
	}
	if text, err := os.ReadFile(f.path); err == nil {
		f.conf, f.loaded, f.stamp = ParseConf(text), true, stamp
	}
	return f.conf
}
