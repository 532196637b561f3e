// Package control is how other commands speak with the aisb of a running
// sandbox: typed messages over a unix socket in the run's directory.
//
// A client connects, sends one Request and gets one Answer; for a stop, the end
// of the connection says that the sandbox is gone. Only processes of the same
// user outside of any sandbox are heard: a sandbox's user has the same uid on
// the host, so the user namespace is compared too, although no sandbox sees the
// directory that the socket lies in.
package control

import (
	"time"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Op is what a client wants.
type Op string

// The requests. A sandbox that was started by another version of aisb may know
// others; it answers those that it doesn't know with an error.
const (
	OpInfo Op = "info"
	OpStop Op = "stop"
	OpExec Op = "exec"

	OpAttach Op = "attach" // of a detached sandbox alone
)

// Request is what a client says.
type Request struct {
	Protocol int `json:"protocol"` // of the client

	Op    Op            `json:"op"`
	Grace time.Duration `json:"grace,omitempty"` // with OpStop: until the command is killed

	// Exec comes with OpExec. Its environment goes over the sandbox's own; an empty
	// directory means that of the first command, a relative one lies in the project.
	Exec *handshake.Exec `json:"exec,omitempty"`

	Attach *Attach `json:"attach,omitempty"` // with OpAttach
}

// Answer is what it hears. That to OpExec comes with descriptors: the socket of
// handshake.Exec, and the command's terminal or pipes; that to OpAttach likewise
// with the socket of AttachControl and AttachEnd, and streams.
type Answer struct {
	Protocol int `json:"protocol"` // in which it is given: the request's, or the newest that is known

	Err  *Error `json:"err,omitempty"`
	Info *Info  `json:"info,omitempty"` // with OpInfo
}

// State is how far a sandbox is.
type State string

// The states. The last two are a client's view.
const (
	Starting State = "starting" // the command doesn't run yet
	Running  State = "running"
	Ending   State = "ending" // the command has ended, aisb cleans up
	Silent   State = "silent" // its aisb doesn't answer: it is stopped, it hangs, or the machine is very busy
	Dead     State = "dead"   // its aisb is gone, and so is the sandbox: only the directory is left
)

// Info is what a sandbox tells about itself. What a user has named or typed may
// hold any byte.
type Info struct {
	Name    string          `json:"name"`
	State   State           `json:"state"`
	PID     int             `json:"pid"` // of its aisb
	Project handshake.Bytes `json:"project"`
	Command handshake.Args  `json:"command"`
	Started time.Time       `json:"started"`
	Net     string          `json:"net"`
	Backend string          `json:"backend,omitempty"`
	Image   string          `json:"image"`
	Ports   []Port          `json:"ports,omitempty"`

	// Writable are the host's directories and files in which the sandbox can write,
	// the project among them.
	Writable []handshake.Bytes `json:"writable,omitempty"`
	Detached bool              `json:"detached,omitempty"`

	Aisb string `json:"aisb,omitempty"` // the version of its aisb

	Stopped bool `json:"-"` // of Silent, a client's view too: its aisb stands still
}

// Port is a port of the host's loopback that leads to one in the sandbox.
type Port struct {
	Host    uint16 `json:"host"`
	Sandbox uint16 `json:"sandbox"`
}

// Error is why a request was not granted.
type Error struct {
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
	Status int    `json:"status"` // for the client to exit with
}

func (e *Error) Error() string { return e.Text }
