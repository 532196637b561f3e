// Package handshake is the language that aisb on the host and the entrypoint
// in the container speak before the harness starts.
//
// The entrypoint inherits one end of a socket pair as descriptor FD; messages
// are those of gate/fdmsg.
//
//	aisb (host)                          entrypoint (pid 1 in the container)
//	                       <-- hello ---  alive; the kernel adds its host pid
//	   finds pasta, tells the gate
//	   --- Config (the go) --------->
//	                       <-- apply ---  ruleset installed
//	                       <-- fence ---  ruleset read back, and it is exactly that
//	                       <-- listen --  with Fence.Listen: the gate's listener
//	                       <-- proof ---  traffic shows that it holds; Proof.Control is shut
//	                       <-- drop ----  pid 1 holds no capability any more
//	                       <-- stdio ---  with descriptors, see Stdio
//	                       <-- start ---  about to start the harness
//	                       (the entrypoint shuts its sending side)
//	                       one byte, the command's status, over a pipe of its own
//	   --- Control (signals, execs) ->    for as long as the harness lives
//	   closes, or dies ------------->     end of file: pid 1 ends the container
//
// Another command is started over a socket pair of its own, whose other end
// comes with a Control, and which aisb hands on to whoever asked for the command:
//
//	client                               entrypoint
//	   --- Exec --------------------->
//	                       <-- stdio ---  with the terminal's master, or the ends of the
//	                                      pipes: it runs. Or a Stage with Error.
//	   --- Control (signals) -------->    for as long as the command lives
//	                       <-- exit ----  with its status
//	   closes, or dies ------------->     end of file: pid 1 ends the command
//
// A connection to a server in the sandbox, for a published port, is asked for by a
// Control too, and the answer comes over a socket pair of its own:
//
//	aisb                                 entrypoint
//	                       <-- dial ----  with the connected socket, or a Stage with Error
//
// Instead of any stage the entrypoint may send a Stage with Error set and exit
// with Status. Because the sending side is shut before the harness runs, a
// status of 77 or 78 is the fence's own exactly when a Stage carried it.
package handshake

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/aisb-dev/aisb/netpolicy"
)

// FD is the entrypoint's descriptor of the socket pair: the first that
// podman's --preserve-fds=1 passes.
const FD = 3

// Version is of this language. Both sides come from one binary, so another
// version means that something swapped it.
const Version = 1

// Exit statuses of the entrypoint (after sysexits.h).
const (
	ExitFence   = 77  // the fence could not be put up
	ExitProof   = 78  // it is not what it must be, or the configuration is invalid
	ExitRefused = 125 // of an Exec alone: it was not even looked for
	ExitNoExec  = 126
	ExitNoCmd   = 127
)

// Config tells the entrypoint everything: nothing comes from its environment,
// its arguments or the image.
type Config struct {
	Version int
	Run     string // the run's name, for messages

	Argv Args     // the command; Argv[0] is looked up in the PATH of Env
	Env  [][]byte // whole environment of the command, "NAME=VALUE", any byte but NUL
	Dir  Bytes    // working directory, absolute

	UID, GID int // whom the command runs as; 0, 0 with InsecureKeepRoot

	// UserMap and GroupMap say which id in the container is the user's own on
	// the host. Under another map the command would be somebody else there.
	UserMap, GroupMap IDMap

	Fence *Fence // nil with --net full alone

	// Mounts are all mount points that the container may have beside the
	// kernel's own; anything else in mountinfo is a refusal.
	Mounts []Mount

	TTY  bool // the command gets a terminal of its own
	Rows uint16
	Cols uint16

	AllowUserNS      bool // leave user namespaces open (--allow-userns)
	AllowUnenforced  bool // go on when fence or proof fails (--allow-unenforced)
	InsecureKeepRoot bool // don't become UID (--insecure-keep-root)
}

// Fence is what the entrypoint puts up and proves.
type Fence struct {
	Policy netpolicy.Spec
	Proof  Proof

	// Listen is where the gate's listener is made inside, an address of
	// loopback and a port; "" when the gate is outside.
	Listen string
}

// Proof says how the fence is tried. Each probe of Policy.Probes is
// sent and must be refused by its own rule; then the gate must show that it is
// this run's gate. Without a gate it is aisb's own listener that must answer: what is
// open can be reached, and no stranger's host has to be up for that.
type Proof struct {
	Gate string // address and port of the gate as seen from the container
	// Control is aisb's listener, one of Policy.Direct.Peers. It is taken out of them
	// as soon as it has answered.
	Control string
	Key     []byte // HMAC-SHA256 key shared with this run's gate or listener alone
}

// Settled is the policy that the fence has once it is proved.
func (f Fence) Settled() netpolicy.Spec {
	if f.Policy.Direct == nil || f.Proof.Control == "" {
		return f.Policy
	}
	return f.Policy.WithPeers(slices.DeleteFunc(slices.Clone(f.Policy.Direct.Peers), func(p netip.AddrPort) bool {
		return p.String() == f.Proof.Control
	}))
}

// IDMap is one id on both sides of a user namespace: Outside as the namespace
// above has it, which for a rootless podman is podman's own, where the user is 0.
type IDMap struct{ Inside, Outside uint32 }

// Mount is an expected mount point.
type Mount struct {
	Target   string // in the container
	ReadOnly bool
	// Dev and Ino are of the source as aisb opened it on the host, 0 where
	// there is none to compare (tmpfs, volume).
	Dev, Ino uint64
}

// StageName names a message of the entrypoint.
type StageName string

// The stages in their order.
const (
	Hello   StageName = "hello"
	Applied StageName = "apply"
	// Fenced comes with a descriptor: a socket to watch the ruleset with, see
	// netpolicy/nft.Watch. It has none when Warning is set.
	Fenced StageName = "fence"
	// Listening comes with a descriptor: the gate's listener.
	Listening StageName = "listen"
	Proved    StageName = "proof"
	Dropped   StageName = "drop"
	// Stdio comes with descriptors: the read end of the pipe for the command's
	// status, then the pty's master or stdin (write end), stdout and stderr (read
	// ends).
	Stdio StageName = "stdio"
	Start StageName = "start"
	// Dialed comes with a descriptor: a socket that is connected to the port asked for.
	Dialed StageName = "dial"
	// Exit is the end of an Exec's command.
	Exit StageName = "exit"
)

// Stage is a message of the entrypoint.
type Stage struct {
	Stage  StageName
	Micros int64 `json:",omitempty"` // since the entrypoint's go

	Probes  []ProbeResult `json:",omitempty"` // with Proved
	Warning string        `json:",omitempty"` // with AllowUnenforced: what does not hold

	// Error, Hint and Status are set when the entrypoint gives up at Stage. With
	// Exit, Status is the command's.
	Error, Hint string `json:",omitempty"`
	Status      int    `json:",omitempty"`
}

// ProbeResult is what one probe saw.
type ProbeResult struct {
	Name string
	Saw  string // "refused", "absent" (no route to that family), "nonce", ...
	OK   bool
}

// Control is a message of aisb to pid 1 while the harness runs. Zero fields
// mean nothing.
type Control struct {
	Signal int `json:",omitempty"` // sent to the command (its process group without a terminal)

	// Exec comes with a descriptor: an end of the socket pair for another command.
	Exec bool `json:",omitempty"`

	// Dial is a port of the sandbox's loopback to connect to. It comes with a
	// descriptor: an end of the socket pair for the answer.
	Dial uint16 `json:",omitempty"`
}

// Exec is another command to run beside the first: with its rights, and nothing
// of its environment that isn't said here.
type Exec struct {
	Argv Args     // Argv[0] is looked up in the PATH of Env
	Env  [][]byte // as in Config
	Dir  Bytes    // working directory, absolute

	TTY        bool
	Rows, Cols uint16
}

// Bytes is text that may hold any byte, as names of files do. JSON would put
// U+FFFD in place of what isn't UTF-8, and so name another file.
type Bytes string

// MarshalJSON writes base64.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(b)) }

// UnmarshalJSON reads base64.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	var raw []byte
	err := json.Unmarshal(text, &raw)
	*b = Bytes(raw)
	return err
}

// Args are arguments of a command, which may hold any byte, too.
type Args []string

// MarshalJSON writes a list of base64.
func (a Args) MarshalJSON() ([]byte, error) {
	raw := make([][]byte, len(a))
	for i, arg := range a {
		raw[i] = []byte(arg)
	}
	return json.Marshal(raw)
}

// UnmarshalJSON reads a list of base64.
func (a *Args) UnmarshalJSON(text []byte) error {
	var raw [][]byte
	err := json.Unmarshal(text, &raw)
	*a = make(Args, len(raw))
	for i, arg := range raw {
		(*a)[i] = string(arg)
	}
	return err
}
