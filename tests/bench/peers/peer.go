package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

// peer is a proxy that is measured.
type peer struct {
	name  string
	plain bool // does plain HTTP too
	port  int
	argv  func(dir string, port int) ([]string, error)

	dir string
	run *ground.Process
}

// binaries are the programs that are measured.
type binaries struct {
	aisb, squid, smokescreen string
	profiles                 string // directory; then this program is the gate
}

// peers lists them; those that are not installed are left out. All have the same
// allowlist of one name, ask the same name server and log each connection.
func peers(b binaries) []*peer {
	all := []*peer{
		{name: "aisb gate", plain: true, port: 3128, argv: b.gate},
		{name: "squid", plain: true, port: 3129, argv: b.squidConfig},
		{name: "smokescreen", plain: true, port: 3130, argv: b.smokescreenConfig},
		{name: "bare relay", port: 3131, argv: func(_ string, port int) ([]string, error) {
			return []string{"/proc/self/exe", "-relay", strconv.Itoa(port)}, nil
		}},
	}
	var there []*peer
	for _, p := range all {
		if p.name == "squid" && b.squid == "" || p.name == "smokescreen" && b.smokescreen == "" {
			fmt.Fprintf(os.Stderr, "%s is not installed and is left out\n", p.name)
			continue
		}
		there = append(there, p)
	}
	return there
}

func (b binaries) gate(_ string, port int) ([]string, error) {
	if b.profiles != "" {
		return []string{"/proc/self/exe", "-profiled", strconv.Itoa(port), b.profiles}, nil
	}
	return []string{b.aisb, "gate", "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--allow", ground.Host + ":*", "--resolver", ground.DNS}, nil
}

// squidConfig is the smallest that does the same job: no cache, no helpers, one
// line of log a request by its own buffered writer.
func (b binaries) squidConfig(dir string, port int) ([]string, error) {
	const text = `http_port 127.0.0.1:%d
acl allowed dstdomain %s
http_access allow allowed
http_access deny all
dns_nameservers 127.0.0.1
access_log stdio:%s/access.log squid
cache_log %s/cache.log
cache_store_log none
cache deny all
cache_mem 8 MB
pinger_enable off
max_filedescriptors 65536
shutdown_lifetime 1 second
pid_filename none
coredump_dir %s
cache_effective_user %s
`
	// Started by root, it becomes another user.
	as := "proxy"
	u, err := user.Lookup(as)
	if err != nil {
		as = "nobody"
		if u, err = user.Lookup(as); err != nil {
			return nil, err
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("user %s has no number", as)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "squid.conf")
	conf := fmt.Sprintf(text, port, ground.Host, dir, dir, dir, as)
	return []string{b.squid, "-N", "-f", file}, os.WriteFile(file, []byte(conf), 0o644)
}

func (b binaries) smokescreenConfig(dir string, port int) ([]string, error) {
	conf, acl := filepath.Join(dir, "smokescreen.yaml"), filepath.Join(dir, "acl.yaml")
	text := fmt.Sprintf("ip: 127.0.0.1\nport: %d\nacl_file: %s\nallow_missing_role: true\nresolver_addresses: [%q]\n",
		port, acl, ground.DNS)
	rules := fmt.Sprintf("version: v1\nservices: []\ndefault:\n  name: default\n  project: bench\n  action: enforce\n  allowed_domains:\n    - %s\n", ground.Host)
	if err := os.WriteFile(acl, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	return []string{b.smokescreen, "--config-file", conf}, os.WriteFile(conf, []byte(text), 0o600)
}

// start runs the proxy until it takes connections.
func (p *peer) start(dir string) error {
	p.dir = dir
	argv, err := p.argv(dir, p.port)
	if err != nil {
		return err
	}
	if p.run, err = ground.Launch(filepath.Join(dir, "output"), argv...); err != nil {
		return err
	}
	if err := p.run.Listens(p.port); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "output"))
		return fmt.Errorf("%s: %w\n%s", p.name, err, said)
	}
	return nil
}

// Answers that are whole.
func wholeHead(got []byte) bool { return bytes.HasSuffix(got, []byte("\r\n\r\n")) }
func wholeTalk(got []byte) bool { return len(got) >= len("TLS!") }
func wholeBody(got []byte) bool {
	head, body, found := bytes.Cut(got, []byte("\r\n\r\n"))
	if found && bytes.Contains(bytes.ToLower(head), []byte("\r\ntransfer-encoding: chunked")) {
		return bytes.HasSuffix(body, []byte("\r\n0\r\n\r\n"))
	}
	return found && len(body) >= ground.BodySize
}

// tunnelSteps are CONNECT and the first flight of TLS.
func tunnelSteps(hello []byte, port int) []ground.Step {
	target := fmt.Sprintf("%s:%d", ground.Host, port)
	return []ground.Step{
		{Send: fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %[2]s\r\nUser-Agent: bench\r\n\r\n", http.MethodConnect, target), Whole: wholeHead},
		{Send: hello, Whole: wholeTalk},
	}
}

// webSteps are a plain request, again and again on one connection.
func webSteps() []ground.Step {
	return []ground.Step{{
		Send:  fmt.Appendf(nil, "GET http://%s/thing?x=1 HTTP/1.1\r\nHost: %[1]s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", ground.Host),
		Whole: wholeBody,
	}}
}
