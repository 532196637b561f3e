package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// describe notes what a reader must know to judge the numbers.
func (r *result) describe(b binaries) {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	r.machine = []string{
		"Date: " + r.began.UTC().Format("2006-01-02 15:04 UTC"),
		fmt.Sprintf("Machine: %s, %d CPUs, Linux %s %s; load in the end %s", cpuName(), cpuCount(), kernel, runtime.GOARCH, r.load),
		"aisb: " + firstLine(b.aisb, "version"),
	}
	if b.squid != "" {
		r.machine = append(r.machine, "squid: "+firstLine(b.squid, "-v"))
	}
	if b.smokescreen != "" {
		r.machine = append(r.machine, "smokescreen: "+firstLine(b.smokescreen, "--version"))
	}
	r.machine = append(r.machine, "bare relay: "+runtime.Version()+", io.Copy both ways, no log, no rules, no name server")
}

func firstLine(argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "version unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// cpuCount is of the machine: this program is pinned.
func cpuCount() int {
	text, _ := os.ReadFile("/proc/cpuinfo")
	return strings.Count(string(text), "\nprocessor\t") + 1
}

func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

const preface = `# The gate beside other proxies

Written by ` + "`make bench`" + `; don't edit it. Ratios within a run are the result: absolute numbers are one machine's.

![ratios to squid](peers.svg)

`

const method = `
## How it is measured

- All proxies in one run, in turns, another one first in each round; one round before the first warms them up. The table has
  medians, least and greatest values.
- Proxy and clients are in a network namespace, the origin behind a veth pair in another one, at an address that is public to
  the proxies. The proxy is alone on the last CPU, clients, origin and name server have the others. Rates and times on
  a machine that does something else meanwhile say little; processor time per piece of work is robust.
- Each has an allowlist with the origin's name, asks the same name server and logs each connection to a file; squid without
  cache and helpers. The bare relay does none of that: it is what a proxy in Go can't be cheaper than without leaving the
  standard library.
- A tunnel is CONNECT, a ClientHello of %d bytes (the same for all) and the origin's first answer; %d at once, %d a round.
  Its time is from connecting to that answer. Processor time is user and system time of the proxy's processes, the end of
  the tunnels included.
- Bulk is %d GiB each way through one tunnel. Plain HTTP is %d requests a round for 1 KiB on %d kept connections.
- Memory is the growth of the proportional set size of a fresh process, %v after the tunnels came to be silent; "most" is
  %d tunnels, which all must answer in the end.
`

// page is docs/bench/README.md.
func (r *result) page(hello int) string {
	var b strings.Builder
	b.WriteString(preface)
	for _, line := range r.machine {
		b.WriteString("- " + line + "\n")
	}
	fmt.Fprintf(&b, "- %d rounds\n\n%s", r.rounds, r.table())
	s := r.sizes
	fmt.Fprintf(&b, method, hello, s.width, s.tunnels, s.gib, s.requests, s.width, s.wait, s.idle[1])
	return b.String()
}
