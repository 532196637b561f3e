// Package entry is the first process of a sandbox: it puts the fence up, reads
// it back, proves it by traffic, gives up every right, and only then starts the
// command, which it outlives as a pid 1 that holds nothing.
//
// It believes only what aisb sends over the inherited socket pair (package
// handshake) and what the kernel says: never its environment, its arguments or
// the image. In no state does the command start when something is off.
package entry

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Name is argv[0] of the entrypoint.
const Name = "aisb-entry"

// configTimeout bounds the wait for aisb, which meanwhile starts the gate.
const configTimeout = 30 * time.Second

// killed is the status of a sandbox whose aisb is gone, as a shell shows
// SIGKILL.
const killed = 128 + int(unix.SIGKILL)

// Main is the entrypoint. It returns the exit status of the process.
func Main(args []string) int {
	oneThread()
	if len(args) == 1 && args[0] == probeArg {
		return probeMain()
	}
	return (&entry{}).run()
}

// entry is one start of a sandbox.
type entry struct {
	conn  *fdmsg.Conn
	began time.Time // the go
	cfg   handshake.Config

	prober  *prober              // the proof's child, ready and waiting
	rules   netpolicy.Ruleset    // of cfg.Fence
	counted map[string]nft.Count // by rule, as first read back
	unheld  string               // with AllowUnenforced: what does not hold
	retry   []handshake.Mount    // mounts whose source only UID can look at
	signals *signals
	command command
	execs   execs
	oom     *oomScore
	dials   dials
	status  *os.File // takes one byte, the command's status
	shut    bool     // nothing more is told to aisb
	keep    func()   // sees to the threads for all that aisb may ask for, and waits for them

	// seam is the tests': it is called at the points at which they spoil a start.
	seam func(point string)
}

// failure ends the start. The command has not run.
type failure struct {
	stage  handshake.StageName
	status int
	err    error
	hint   string
}

func (f *failure) Error() string { return f.err.Error() }

// run is the whole life of pid 1.
func (e *entry) run() int {
	e.began = time.Now()
	if err := harden(); err != nil {
		return complain(err)
	}
	conn, err := fdmsg.FromFile(os.NewFile(handshake.FD, "aisb"))
	if err != nil {
		return complain(fmt.Errorf("%w (aisb starts this program, nobody else)", err))
	}
	e.conn = conn
	if e.signals, err = catchSignals(); err != nil {
		return complain(err)
	}
	e.oom = openOOMScore()
	e.execs.oom = e.oom
	for _, step := range []func() *failure{
		e.hello, e.receive, e.inspect, e.fence, e.listen, e.prove, e.drop, e.stdio, e.find, e.start,
	} {
		if f := step(); f != nil {
			return e.giveUp(f)
		}
	}
	status := e.supervise()
	e.spoil("ended")
	return e.handOver(status)
}

// harden closes what other processes could use before anything is known.
func harden() error {
	// No core dump, no ptrace, no /proc/1/mem: memory will hold the command's
	// environment. A limit of 1 also stops dumps into a pipe (core(5)).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	var core unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &core)
	if err == nil && core.Max > 0 { // 0 can't be raised: aisb has judged that, see podman.CoreLimit
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	}
	if err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	// Whatever was inherited, the command gets 0, 1 and 2 alone.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	unix.Umask(0o022)
	if os.Getpid() != 1 {
		return errors.New("this is not the first process of a container")
	}
	return nil
}

// at is a point of the start at which the tests make something go wrong.
func (e *entry) at(point string) {
	e.spoil(point)
	if e.seam != nil {
		e.seam(point)
	}
}

// hello says that the entrypoint is alive and starts the proof's child, so that
// it is ready when aisb's answer comes.
func (e *entry) hello() *failure {
	e.spoil("hello")
	if f := e.tell(handshake.Stage{Stage: handshake.Hello}); f != nil {
		return f
	}
	var err error
	if e.prober, err = startProber(); err != nil {
		return &failure{handshake.Hello, handshake.ExitProof, err, "the limit of processes may be too low: try --pids-limit 1024"}
	}
	return nil
}

// receive waits for the go.
func (e *entry) receive() *failure {
	e.conn.SetReadDeadline(time.Now().Add(configTimeout))
	err := receive(e.conn, &e.cfg)
	e.began = time.Now()
	if err == nil {
		err = e.conn.SetReadDeadline(time.Time{})
	}
	if err == nil {
		err = checkConfig(e.cfg)
	}
	if err == nil && e.cfg.Fence != nil {
		e.rules, err = netpolicy.Render(e.cfg.Fence.Policy)
	}
	if errors.Is(err, io.EOF) {
		return &failure{stage: handshake.Hello, status: killed, err: err} // aisb is gone
	}
	if err != nil {
		return &failure{handshake.Hello, handshake.ExitProof, fmt.Errorf("configuration from aisb: %w", err),
			"this is a defect of aisb: please report it"}
	}
	e.spoil("told")
	if e.cfg.Fence == nil {
		return nil
	}
	if err := e.prober.become(identity{e.cfg.UID, e.cfg.GID, e.cfg.AllowUserNS}); err != nil {
		return &failure{handshake.Hello, handshake.ExitProof, fmt.Errorf("the proof's process: %w", err),
			"it may have been killed: look for a memory limit that is too low"}
	}
	return nil
}

// tell sends a stage. When aisb is gone, so is the reason to go on.
func (e *entry) tell(s handshake.Stage, files ...*os.File) *failure {
	s.Micros = time.Since(e.began).Microseconds()
	if err := e.conn.Send(s, files...); err != nil {
		return &failure{stage: s.Stage, status: killed, err: err}
	}
	return nil
}

// giveUp reports a failure and returns the status to exit with.
func (e *entry) giveUp(f *failure) int {
	if e.shut {
		return e.handOver(f.status)
	}
	s := handshake.Stage{Stage: f.stage, Error: f.err.Error(), Hint: f.hint, Status: f.status}
	s.Micros = time.Since(e.began).Microseconds()
	e.conn.SetDeadline(time.Now().Add(time.Second))
	if err := e.conn.Send(s); err != nil && f.status != killed {
		complain(f.err)
	}
	return f.status
}

// handOver gives aisb the command's status. Without it aisb knows that this
// process ended in a way that it didn't choose, whatever its own status says.
func (e *entry) handOver(status int) int {
	_, _ = e.status.Write([]byte{byte(status)}) // an error means that aisb is gone
	return status
}

// complain is for a start so wrong that aisb can't be told.
func complain(err error) int {
	fmt.Fprintf(os.Stderr, "%s: error: %v\n", Name, err)
	return handshake.ExitProof
}
