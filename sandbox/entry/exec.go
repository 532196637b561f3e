package entry

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Bounds of the commands beside the first.
const (
	maxExecs    = 128              // at once: each costs pid 1 a descriptor
	execTimeout = 10 * time.Second // for the request, once its socket has come
	hangUpGrace = time.Second      // from SIGHUP to SIGKILL when the client is gone
)

// execs are the commands that the user has asked for beside the first. pid 1
// starts them itself when it has given everything up, so each has by birth what
// the first command has, and nothing else: the kernel gives a child the
// credentials, the no_new_privs and the filters of its parent. The sandbox ends
// with the first command, not with these.
type execs struct {
	oom *oomScore // what commands are lent

	mu      sync.Mutex
	open    int
	running map[int]*execution
	forking int                     // executions whose pid isn't known yet
	early   map[int]unix.WaitStatus // who ended meanwhile: may be one of them
}

// execution is one of these commands.
type execution struct {
	group bool          // signals go to its whole process group
	ended chan struct{} // closed when status is known

	mu     sync.Mutex
	pid    int // 0 once it was reaped: the number may be another's then
	status int
}

// serve is the life of one command: f is the socket of whoever wants it. Nothing
// that comes through it ends more than this command.
func (x *execs) serve(f *os.File) {
	conn, err := fdmsg.FromFile(f)
	if err != nil {
		return // the end of file tells
	}
	defer conn.Close()
	p, ours, fail := x.begin(conn)
	if fail != nil {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_ = conn.Send(handshake.Stage{Stage: fail.stage, Error: fail.err.Error(), Hint: fail.hint, Status: fail.status})
		return
	}
	_ = conn.Send(handshake.Stage{Stage: handshake.Stdio}, ours...) // an error is the end of file for listen
	closeAll(ours)
	go p.listen(conn)
	<-p.ended
	x.leave() // before it is told: whoever hears of it may ask for the next one
	_ = conn.Send(handshake.Stage{Stage: handshake.Exit, Status: p.status})
}

// begin reads the request and starts the command. Its streams' other ends are the
// caller's.
func (x *execs) begin(conn *fdmsg.Conn) (*execution, []*os.File, *failure) {
	refused := func(err error, hint string) *failure {
		return &failure{handshake.Start, handshake.ExitRefused, err, hint}
	}
	var req handshake.Exec
	err := conn.SetReadDeadline(time.Now().Add(execTimeout))
	if err == nil {
		err = receive(conn, &req)
	}
	if err == nil {
		err = errors.Join(conn.SetReadDeadline(time.Time{}), checkExec(req))
	}
	if err != nil {
		return nil, nil, refused(fmt.Errorf("request for a command: %w", err), "")
	}
	c := command{}
	for _, kv := range req.Env {
		c.env = append(c.env, string(kv))
	}
	dir := string(req.Dir)
	if err := enterable(dir); err != nil {
		return nil, nil, noDirectory(dir, err)
	}
	name := req.Argv[0]
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	if c.path, err = lookPath(name, c.env); err != nil {
		return nil, nil, noCommand(err)
	}
	if !x.enter() {
		return nil, nil, refused(fmt.Errorf("%d other commands run in the sandbox already", maxExecs), "wait until one of them has ended")
	}
	s, err := makeStreams(req.TTY, req.Rows, req.Cols)
	if err != nil {
		x.leave()
		return nil, nil, refused(err, "")
	}
	c.files = s.theirs
	p := &execution{group: !req.TTY, ended: make(chan struct{})}
	err = x.fork(p, func(handle *int) (int, error) {
		return x.oom.lend(func() (int, error) { return c.fork(dir, req.Argv, req.TTY, handle) })
	})
	closeAll(s.theirs)
	if err != nil {
		x.leave()
		closeAll(s.ours)
		return nil, nil, &failure{handshake.Start, handshake.ExitNoExec, fmt.Errorf("run %q: %w", c.path, err), ""}
	}
	return p, s.ours, nil
}

// enterable reports why a directory can't be a working directory.
func enterable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return errors.Unwrap(err)
	case !info.IsDir():
		return unix.ENOTDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
}

func (x *execs) enter() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open >= maxExecs {
		return false
	}
	x.open++
	return true
}

func (x *execs) leave() {
	x.mu.Lock()
	x.open--
	x.mu.Unlock()
}

// fork starts p. Nobody else waits meanwhile: execve(2) of a file that another
// process holds a lease on can take /proc/sys/fs/lease-break-time.
func (x *execs) fork(p *execution, start func(handle *int) (int, error)) error {
	x.mu.Lock()
	x.forking++
	x.mu.Unlock()
	handle := -1
	pid, err := start(&handle)
	x.mu.Lock()
	defer x.mu.Unlock()
	if handle >= 0 {
		defer unix.Close(handle)
	}
	if err == nil {
		p.pid = pid
		if ws, ok := x.early[pid]; ok && reapedAlready(handle) {
			delete(x.early, pid)
			p.end(ws)
		} else {
			if x.running == nil {
				x.running = map[int]*execution{}
			}
			x.running[pid] = p
		}
	}
	if x.forking--; x.forking == 0 {
		x.early = nil
	}
	return err
}

// reapedAlready reports whether the process of a pidfd was waited for. Its number alone
// doesn't tell: it may have been that of another before, whose end was noted. Where the
// host lets nobody ask, the number has to do.
func reapedAlready(handle int) bool {
	return unix.PidfdSendSignal(handle, 0, nil, 0) != nil
}

// reaped takes note of the end of a process.
func (x *execs) reaped(pid int, ws unix.WaitStatus) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.running[pid]; p != nil {
		delete(x.running, pid)
		p.end(ws)
		return
	}
	if x.forking > 0 {
		if x.early == nil {
			x.early = map[int]unix.WaitStatus{}
		}
		x.early[pid] = ws
	}
}

func (p *execution) end(ws unix.WaitStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.status = 0, ws.ExitStatus()
	if ws.Signaled() {
		p.status = 128 + int(ws.Signal())
	}
	close(p.ended)
}

// listen passes the client's signals on until the command has ended, or the client
// has: then nobody is there to end the command any more.
func (p *execution) listen(conn *fdmsg.Conn) {
	for {
		var c handshake.Control
		m, err := conn.Recv(&c)
		m.Close()
		if err != nil {
			break
		}
		if c.Signal > 0 && c.Signal <= maxSignal {
			p.signal(unix.Signal(c.Signal), p.group)
		}
	}
	p.signal(unix.SIGHUP, true)
	p.signal(unix.SIGCONT, true) // a stopped process would see it only then
	select {
	case <-p.ended:
	case <-time.After(hangUpGrace):
		p.signal(unix.SIGKILL, true)
	}
}

// signal does nothing once the command has ended.
func (p *execution) signal(sig unix.Signal, group bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pid == 0:
	case group || sig == unix.SIGKILL:
		_ = unix.Kill(-p.pid, sig) // it leads its group (setsid)
	default:
		_ = unix.Kill(p.pid, sig)
	}
}
