// Command peers measures aisb's gate beside other proxies: in one run, on one
// machine, against one origin, in turns. It writes what it found as a table and a
// plot.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

func main() {
	if len(os.Args) > 2 && (os.Args[1] == "-relay" || os.Args[1] == "-profiled") {
		if err := proxy(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	status, inside := ground.Enter()
	if !inside {
		os.Exit(status)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// proxy is this program as one of the proxies.
func proxy(args []string) error {
	var port int
	if _, err := fmt.Sscan(args[1], &port); err != nil {
		return err
	}
	if args[0] == "-relay" {
		return relay(port)
	}
	return profiled(port, args[2])
}

func run() error {
	var b binaries
	var s sizes
	flag.StringVar(&b.aisb, "aisb", "./aisb", "the binary with the gate")
	flag.StringVar(&b.squid, "squid", "", "squid's binary")
	flag.StringVar(&b.smokescreen, "smokescreen", "", "smokescreen's binary")
	flag.StringVar(&b.profiles, "profiles", "", "measure the gate in this program instead, and put its profiles into the directory")
	rounds := flag.Int("rounds", 5, "rounds")
	out := flag.String("out", "", "directory for README.md and the plot; none prints the table alone")
	only := flag.String("only", "", "one part: tunnels, bulk, web or idle")
	flag.IntVar(&s.tunnels, "tunnels", 20_000, "tunnels a round")
	flag.IntVar(&s.requests, "requests", 32_000, "plain requests a round")
	flag.IntVar(&s.width, "width", 32, "connections at once")
	flag.IntVar(&s.gib, "gib", 2, "GiB each way a round")
	flag.DurationVar(&s.wait, "wait", time.Minute, "how long idle tunnels are held")
	flag.Parse()
	s.idle = []int{2000, ground.Most()}

	g, err := ground.Build()
	if err != nil {
		return err
	}
	defer g.Close()
	work, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil { // squid's user looks in
		return err
	}
	hello, err := ground.ClientHello()
	if err != nil {
		return err
	}
	m := &meeting{peers: peers(b), work: work, hello: hello, sizes: s, only: *only, values: map[*peer]values{}}
	r, err := m.hold(*rounds)
	if err != nil {
		return err
	}
	r.describe(b)
	if *out == "" {
		fmt.Print(r.table())
		return nil
	}
	return errors.Join(os.MkdirAll(*out, 0o755),
		os.WriteFile(filepath.Join(*out, "README.md"), []byte(r.page(len(hello))), 0o644),
		os.WriteFile(filepath.Join(*out, "peers.svg"), []byte(r.plot()), 0o644))
}
