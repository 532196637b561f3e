// Command aisb runs an AI coding harness in a rootless podman container whose
// only way out is aisb's own allowlisting gate.
//
// One binary, three roles, told apart by argv[0] before anything else runs:
// aisb (the command line, and as aisb-supervisor what a detached run leaves),
// aisb-gate (the proxy, on the host) and aisb-entry (pid 1 of the container, which
// sandbox/entry/early begins before main).
// docs/architecture.md has the picture.
package main

import (
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/sandbox/doctor"
	_ "github.com/aisb-dev/aisb/sandbox/entry/early" // is aisb-entry
)

func main() {
	// net/http's client, which the gate uses, tells the standard logger of odd
	// bytes from servers. Nothing of ours goes there.
	log.SetOutput(io.Discard)
	switch filepath.Base(os.Args[0]) {
	case proc.Name:
		os.Exit(proc.Main())
	case doctor.Name:
		os.Exit(doctor.Main(os.Args[1:]))
	case supervisorName:
		os.Exit(supervise(os.Args[1:]))
	}
	os.Exit(cli(os.Args[1:], &ui{Out: os.Stdout, Err: os.Stderr}))
}
