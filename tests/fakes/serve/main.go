// Command serve runs a World of fakes as a process of its own, for tests that
// need it in another network namespace:
//
//	serve < world.json
//
// It reads the document from standard input, then writes its events to standard
// output, one JSON object a line: first a "ready" line for each server, then
// what reaches them. It ends with SIGTERM, or when standard input ends and
// -lifeline is given: the document is then the first JSON value of the input,
// and the open pipe is what keeps the servers alive.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"encoding/json"

	"github.com/aisb-dev/aisb/tests/fakes"
)

func main() {
	lifeline := flag.Bool("lifeline", false, "end when standard input ends")
	flag.Parse()
	if err := serve(*lifeline); err != nil {
		fmt.Fprintln(os.Stderr, "serve: error:", err)
		os.Exit(1)
	}
}

func serve(lifeline bool) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	dec := json.NewDecoder(os.Stdin)
	var doc json.RawMessage
	if err := dec.Decode(&doc); err != nil {
		return fmt.Errorf("read world: %w", err)
	}
	world, err := fakes.ParseWorld(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	run, err := world.Start(fakes.NewLog(os.Stdout))
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	if lifeline {
		go func() { // ends with the process at the latest
			io.Copy(io.Discard, os.Stdin)
			close(ended)
		}()
	}
	select {
	case <-stop:
	case <-ended:
	}
	return run.Close()
}
