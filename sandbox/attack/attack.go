//go:build linux

// Package attack is the battery of `aisb doctor --attack`: the known ways out of
// a sandbox, tried from inside a real one, and judged with two views: what the
// attack saw, and what the host's canaries saw of it.
//
// An attack that got nowhere for a reason of its own must not pass for one that
// was stopped. So what could not be tried is "unknown", never "held", and
// controls show that the same means do reach what may be reached.
package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Verdict is what came of an attack.
type Verdict string

// The verdicts. Of a control, Out is what is wanted: it worked.
const (
	Held    Verdict = "held"
	Out     Verdict = "GOT OUT"
	Unknown Verdict = "unknown" // could not be tried
)

// Finding is a verdict with what was seen: an error of the kernel, an answer.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
}

// Attack is one way out.
type Attack struct {
	ID  string // lower-case letters, digits and hyphens: it travels in names and paths
	Row string // of the threat table, T1 to T21
	Try string // what is tried, in a few words

	// Run tries it inside. nil: judged on the host.
	Run func(context.Context, Plan) Finding
	// Own gives it a process of its own: it changes the one that it runs in, or
	// ends it. The others are run some in one process, since starting one takes
	// longer than most of them.
	Own bool
	// Alone keeps it away from the others: it could disturb them.
	Alone bool
}

// Plan is what the part on the host tells the part inside.
type Plan struct {
	Loopback []string // addresses in the sandbox that may lead to the host's loopback
	HostIPs  []string // the host's own addresses
	LoopPort int      // canary on 127.0.0.1, TCP and UDP
	AnyPort  int      // canary on all addresses, TCP and UDP

	Gated   bool   // the session has a gate
	Allowed string // the one service that may be reached, HOST:PORT
	Second  int    // port of a second gate of the same user on the host's loopback

	Abstract string   // name of a canary among the host's abstract sockets
	Sockets  []string // paths of the host's sockets
	Files    []string // canary files of the host
	Mark     string   // in the host's environment and in those files
	Passed   string   // value that the command was given as a secret
	Tmpfs    uint64   // limit of /tmp, in bytes

	Gate string `json:"-"` // of the session, as its environment names it
	ID   string `json:"-"` // of the attack that is run
}

// token is what an attack says to whom it reaches, so that a canary knows it.
func token(id string) string { return "aisb-attack-" + id }

// Battery is all attacks, in the order of the threat table's rows.
func Battery() []Attack {
	all := slices.Concat(files(), processes(), direct(), families(), throughGate(), smuggled(), tunnels(), calls(), foreign(), limits(), outside())
	slices.SortStableFunc(all, func(a, b Attack) int { return rowNumber(a.Row) - rowNumber(b.Row) })
	return all
}

func rowNumber(row string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(row, "T")) // a test holds the rows
	return n
}

func held(format string, args ...any) Finding { return Finding{Held, fmt.Sprintf(format, args...)} }
func got(format string, args ...any) Finding  { return Finding{Out, fmt.Sprintf(format, args...)} }
func unknown(format string, args ...any) Finding {
	return Finding{Unknown, fmt.Sprintf(format, args...)}
}

// worst joins findings: one way out is enough, and so is one that is unknown to
// make the whole unknown.
func worst(list []Finding) Finding {
	if len(list) == 0 {
		return unknown("there is nothing of the kind here to try it on")
	}
	f := Finding{Verdict: Held}
	for _, v := range []Verdict{Unknown, Out} {
		if slices.ContainsFunc(list, func(g Finding) bool { return g.Verdict == v }) {
			f.Verdict = v
		}
	}
	var seen []string
	for _, g := range list {
		if g.Verdict == f.Verdict && !slices.Contains(seen, g.Seen) {
			seen = append(seen, g.Seen)
		}
	}
	f.Seen = strings.Join(seen, "; ")
	return f
}

// untried are errors of calls that say nothing of a defence: the attack itself
// was malformed, or what it needs is not there.
var untried = []syscall.Errno{unix.EINVAL, unix.EFAULT, unix.ENOENT, unix.EBADF, unix.ENOTDIR, unix.ENOMEM, unix.EMFILE, unix.EEXIST, unix.EAGAIN}

// judged is the finding of a call that should have failed.
func judged(err error) Finding {
	if err == nil {
		return got("it worked")
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return unknown("could not be tried: %v", err)
	}
	if slices.Contains(untried, errno) {
		return unknown("could not be tried: %s", errnoName(err))
	}
	return held("%s", errnoName(err))
}

// errnoName is the kernel's name of an error, where it has one.
func errnoName(err error) string {
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
		return errno.Error()
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer"
	}
	return err.Error()
}

// call is an attack that is one call.
func call(try func() error) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding { return judged(try()) }
}
