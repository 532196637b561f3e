package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/tests/bench/ground"
)

// profiled is the gate as `aisb gate` runs it, with profiles beside its log. The
// shipped binary has no flag for that.
func profiled(port int, dir string) error {
	gate.CollectLess()
	p, _, err := policy.Parse([]policy.Line{{Text: ground.Host + ":*", Origin: "bench"}}, nil, policy.Options{})
	if err != nil {
		return err
	}
	server, err := resolve.ParseServer(ground.DNS)
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: []resolve.Server{server}}),
		Log: gate.NewLog(os.Stdout, ""), Clients: gate.Clients{UID: os.Getuid()},
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	cpu, err := os.Create(dir + "/cpu.pprof") //nolint:forbidigo // a profile is no secret
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-end:
	}
	pprof.StopCPUProfile()
	for _, kind := range []string{"heap", "goroutine", "allocs"} {
		f, err := os.Create(dir + "/" + kind + ".pprof") //nolint:forbidigo // as above
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	g.Drain(ctx)
	return errors.Join(cpu.Close(), <-served)
}
