package ground

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a running program with its children.
type Process struct {
	cmd  *exec.Cmd
	done chan error
}

// Launch starts a proxy on the CPU that is kept for it; its output goes to a
// file. It is from the main goroutine, see Enter.
func Launch(output string, argv ...string) (*Process, error) {
	out, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := Start(cmd, true); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

// Listens waits until the program takes connections on a port.
func (p *Process) Listens(port int) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return c.Close()
		}
		if dead := p.Dead(); dead != nil || time.Now().After(end) {
			return fmt.Errorf("it does not listen: %w, %v", err, dead)
		}
	}
}

// Signal sends a signal to the program.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Dead returns how the program has ended, if it has.
func (p *Process) Dead() error {
	select {
	case err := <-p.done:
		p.done <- err
		return fmt.Errorf("%s has ended: %v", filepath.Base(p.cmd.Path), err)
	default:
		return nil
	}
}

// Stop ends the program, by force if it takes long.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		p.done <- err
		return
	case <-time.After(3 * time.Second):
	}
	p.cmd.Process.Kill()
	p.done <- <-p.done
}

// pids are the program and what it has started.
func (p *Process) pids() []int {
	all := []int{p.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, name := range lists {
			text, _ := os.ReadFile(name)
			for word := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// tick is the unit of times in /proc/PID/stat: USER_HZ, 100 on every machine
// that Linux runs Go on. The sums behind it are exact (proc(5), utime).
const tick = time.Second / 100

// CPU is the processor time of the program and its children so far.
func (p *Process) CPU() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range p.pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The second field, a name in parentheses, may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 13 {
			return 0, errors.New("/proc/PID/stat makes no sense")
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// Memory is what a program holds, in KiB.
type Memory struct{ RSS, PSS int64 }

// Memory sums up the program and its children.
func (p *Process) Memory() (m Memory, _ error) {
	for _, pid := range p.pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return m, err
		}
		for line := range strings.Lines(string(text)) {
			var n int64
			if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); err == nil {
				m.RSS += n
			}
			if _, err := fmt.Sscanf(line, "Pss: %d kB", &n); err == nil {
				m.PSS += n
			}
		}
	}
	return m, nil
}

// Files is how many descriptors the program and its children have open.
func (p *Process) Files() (n int, _ error) {
	for _, pid := range p.pids() {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return 0, err
		}
		n += len(list)
	}
	return n, nil
}

// Sockets is how many of its descriptors are sockets.
func (p *Process) Sockets() (n int, _ error) {
	for _, pid := range p.pids() {
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		list, err := os.ReadDir(dir)
		if err != nil {
			return 0, err
		}
		for _, e := range list {
			if to, err := os.Readlink(dir + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
				n++
			}
		}
	}
	return n, nil
}

// Settle waits until the program has nothing to do: no descriptor comes or goes
// and no time is used for a while.
func (p *Process) Settle(limit time.Duration) {
	const quiet = 60 * time.Millisecond
	var cpu time.Duration
	files, since := -1, time.Now()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(quiet / 6) {
		n, err1 := p.Files()
		c, err2 := p.CPU()
		if err1 != nil || err2 != nil {
			return
		}
		if n != files || c != cpu {
			files, cpu, since = n, c, time.Now()
		}
		if time.Since(since) > quiet {
			return
		}
	}
}
