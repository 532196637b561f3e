package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// Listeners are what the gate gets of its parent, which keeps its own copies.
type Listeners struct {
	Gate   *net.TCPListener // nil for an enclosed gate, like Canary
	Canary *net.TCPListener // nobody may come; who does is counted
	Log    *os.File

	// Gate6 and Canary6 are the same on ::1, both nil where the host has none.
	Gate6, Canary6 *net.TCPListener
}

// sockets are the listeners in the order in which they travel.
func (l Listeners) sockets() []*net.TCPListener {
	if l.Gate6 == nil || l.Canary6 == nil {
		return []*net.TCPListener{l.Gate, l.Canary}
	}
	return []*net.TCPListener{l.Gate, l.Canary, l.Gate6, l.Canary6}
}

// ErrGone reports a gate that has ended, or doesn't answer.
var ErrGone = errors.New("the gate's process does not answer")

// answerTimeout bounds the wait for any answer of a gate.
const answerTimeout = 15 * time.Second

// Process is a running gate.
type Process struct {
	cmd    *exec.Cmd
	conn   *fdmsg.Conn
	stderr *opening

	patience time.Duration // with an answer
	witness  witness

	mu   sync.Mutex // one request at a time
	done chan struct{}
	err  error // of the process's end; valid once done is closed
}

// Start starts a gate from the binary exe and returns when it serves. When ctx
// ends before that, there is no gate.
func Start(ctx context.Context, exe string, cfg Config, files Listeners) (*Process, error) {
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		return nil, err
	}
	p := &Process{conn: conn, stderr: newOpening(), patience: answerTimeout, done: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: exe, Args: []string{Name}, Env: []string{}, Dir: "/",
		ExtraFiles: []*os.File{theirs},
		Stderr:     p.stderr,
		// A session of its own: ^C is for the command in the sandbox.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = p.cmd.Start()
	theirs.Close() // or the gate's death would not be seen
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the gate's process: %w", err)
	}
	go p.wait()
	stop := context.AfterFunc(ctx, func() { p.kill() })
	reply, err := p.configure(cfg, files)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil && reply.Kind != kindReady {
		err = fmt.Errorf("unexpected answer %q", reply.Kind)
	}
	if err != nil {
		p.kill()
		<-p.done
		return nil, errors.Join(err, ctx.Err(), p.lastWords())
	}
	return p, nil
}

// configure sends what the gate is made of.
func (p *Process) configure(cfg Config, files Listeners) (message, error) {
	if cfg.Enclosed {
		return p.ask(message{Kind: kindConfig, Config: &cfg}, files.Log)
	}
	mine, theirs, err := fdmsg.Pair()
	if err != nil {
		return message{}, err
	}
	go p.witness.serve(mine) // until the gate has ended, or has not taken its end
	defer theirs.Close()
	send := []*os.File{files.Log, theirs}
	for _, l := range files.sockets() {
		f, err := l.File()
		if err != nil {
			return message{}, err
		}
		defer f.Close()
		send = append(send, f)
	}
	reply, err := p.ask(message{Kind: kindConfig, Config: &cfg}, send...)
	// File has made the sockets blocking, for this process and the gate alike.
	// An Accept here could then not be interrupted.
	for _, l := range files.sockets() {
		err = errors.Join(err, nonblocking(l))
	}
	return reply, err
}

func nonblocking(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) { serr = unix.SetNonblock(int(fd), true) })
	return errors.Join(err, serr)
}

// ask sends a request and waits for its answer.
func (p *Process) ask(m message, files ...*os.File) (message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.SetDeadline(time.Now().Add(p.patience)) // or a stopped gate would hang the start
	if err := p.conn.Send(m, files...); err != nil {
		return message{}, p.ended(err)
	}
	var reply message
	received, err := p.conn.Recv(&reply)
	received.Close() // a gate has no descriptors to give
	if err != nil {
		return message{}, p.ended(err)
	}
	if reply.Kind == kindFailed {
		return message{}, errors.New(reply.Error)
	}
	return reply, nil
}

// ended replaces the error of a broken connection by what is behind it.
func (p *Process) ended(err error) error {
	return fmt.Errorf("%w: %s", ErrGone, err.Error()) // two wrapped ones would be told as two
}

// Pasta names the process that alone may connect from now on. Before, nobody
// may.
func (p *Process) Pasta(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("process id %d", pid)
	}
	select {
	case <-p.done:
		return fmt.Errorf("%w: it has ended", ErrGone)
	default:
	}
	p.witness.pid.Store(int64(pid))
	return nil
}

// Serve gives an enclosed gate its listener.
func (p *Process) Serve(listener *os.File) error {
	_, err := p.ask(message{Kind: kindListener}, listener)
	return err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Warnings are what a gate that goes on has to say.
func (p *Process) Warnings() <-chan string { return p.stderr.warnings }

// PID is the gate's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop lets the gate drain for a moment, ends it and returns what it has seen.
// When ctx ends first, the gate is killed.
func (p *Process) Stop(ctx context.Context) (gate.Report, error) {
	stop := context.AfterFunc(ctx, func() { p.kill() })
	defer stop()
	reply, err := p.ask(message{Kind: kindStop})
	p.conn.Close()
	<-p.done
	if err != nil {
		return gate.Report{}, errors.Join(err, p.lastWords())
	}
	if reply.Report == nil {
		return gate.Report{}, errors.New("the gate ended without a report")
	}
	return *reply.Report, nil
}

func (p *Process) kill() {
	p.conn.Close()
	p.cmd.Process.Kill()
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// lastWords is what the process wrote before its end, if anything: the trace
// of a crash.
func (p *Process) lastWords() error {
	text := strings.TrimSpace(p.stderr.String())
	if text == "" {
		return nil
	}
	return fmt.Errorf("it wrote: %s", text)
}
