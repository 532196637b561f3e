// Package proc runs a gate in a process of its own.
//
// Parent and gate share a socket pair (gate/fdmsg). The gate has nothing else
// of its parent: no environment, no terminal, no standard streams.
//
//	parent                                gate
//	--- config, with descriptors --->     builds the gate, locks itself up
//	                  <--- ready ---      serves
//	                  <--- failed ---     or can't, and ends
//	--- listener ----------------->       an enclosed gate serves whoever reaches it
//	                  <--- done ---
//	--- stop --------------------->       drains
//	                  <--- report ---     and ends
//	closes, or dies -------------->       end of file: ends at once
//
// Each request of the parent has one answer. Of a gate on the host's loopback the
// parent says by another socket pair whose a connection is (witness). The end of file is the lifeline:
// it comes also when the parent was killed, and the gate then removes the run's
// directory, since nobody else is left to do so.
package proc

import (
	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
)

// Name is the argv[0] of a gate's process.
const Name = "aisb-gate"

// fd is the gate's end of the socket pair.
const fd = 3

// Config is what the gate is made of, as data.
type Config struct {
	Run     string `json:"run,omitempty"` // name of the sandbox, for the log
	Command string `json:"command,omitempty"`

	Allow         []policy.Line `json:"allow,omitempty"`
	Deny          []policy.Line `json:"deny,omitempty"`
	AllowAllNames bool          `json:"allow_all_names,omitempty"`

	// Resolver is as resolve.ParseServer reads it; "" is the host's resolv.conf.
	Resolver string `json:"resolver,omitempty"`

	Key []byte `json:"key,omitempty"` // proves to the sandbox that it is its gate

	// Enclosed gates get their listener later (Process.Serve), from the network
	// namespace of a sandbox, and serve whoever reaches it.
	Enclosed bool `json:"enclosed,omitempty"`

	// RunDir is made by the gate, if it isn't there, and removed when the lifeline ends.
	RunDir string `json:"run_dir,omitempty"`
}

// kind names a message.
type kind string

const (
	kindConfig   kind = "config"   // files: log, and unless enclosed the witness's socket, listener and canary listener, of ::1 too where there is one
	kindListener kind = "listener" // file: listener
	kindStop     kind = "stop"

	kindReady  kind = "ready"
	kindDone   kind = "done"
	kindFailed kind = "failed"
	kindReport kind = "report"
)

// message is either direction's. Kind says which other field counts.
type message struct {
	Kind   kind         `json:"kind"`
	Config *Config      `json:"config,omitempty"`
	Error  string       `json:"error,omitempty"`
	Report *gate.Report `json:"report,omitempty"`
}
