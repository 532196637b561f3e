package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/aisb-dev/aisb/gate/metrics"
)

// openMetrics opens the port of --metrics. Nobody is answered before serve is called,
// nor after the function that serve returns. Without the flag there are no metrics,
// and the gate counts nothing.
func (o *gateOptions) openMetrics(u *ui) (m *metrics.Metrics, serve func() (stop func()), err error) {
	if o.metrics == "" {
		return nil, func() func() { return func() {} }, nil
	}
	addr, err := parseListen("--metrics", o.metrics)
	if err != nil {
		return nil, nil, err
	}
	if !addr.Addr().IsLoopback() && !o.metricsRemote {
		return nil, nil, &exitError{code: exitUsage,
			err:  fmt.Errorf("--metrics %q can be read from other machines", o.metrics),
			hint: "add --metrics-allow-remote if that is meant"}
	}
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return nil, nil, listenError("--metrics", err)
	}
	m = metrics.New(version())
	server := &http.Server{
		Handler:           m.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	u.notef("metrics at http://%s/metrics", ln.Addr())
	return m, func() func() {
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(ln) }()
		return func() { server.Close(); <-ended }
	}, nil
}
