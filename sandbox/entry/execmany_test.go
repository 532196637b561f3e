package entry

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// TestExecMany at once, among orphans that pid 1 reaps meanwhile, and no more than
// the bound.
func TestExecMany(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "orphans-and-await"))
	b.started(3)
	b.conn.SetDeadline(time.Time{})
	var all sync.WaitGroup
	for i := range 60 {
		a := b.exec(self("exit", fmt.Sprint(i)))
		all.Go(func() {
			if status := a.wait(); status != i {
				t.Errorf("status %d, want %d", status, i)
			}
		})
	}
	all.Wait()
	var open []*another
	for range maxExecs {
		open = append(open, b.exec(self("sleep")))
	}
	if a := b.exec(self("exit", "0")); a.stage.Status != handshake.ExitRefused || a.stage.Hint == "" {
		t.Errorf("one more: %+v", a.stage)
	}
	for _, a := range open {
		a.conn.Close()
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		a := b.exec(self("exit", "4"))
		if a.stage.Error == "" {
			if status := a.wait(); status != 4 {
				t.Errorf("status %d", status)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no slot comes free")
		}
	}
	b.ends()
}

// TestExecsAreCounted: whoever has heard of the end of a command may ask for another one.
func TestExecsAreCounted(t *testing.T) {
	var x execs
	for range 50 {
		conn, theirs, err := fdmsg.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go x.serve(theirs)
		var st handshake.Stage
		err = conn.Send(handshake.Exec{Argv: handshake.Args{"/bin/true"}, Dir: "/"})
		if err == nil {
			var m fdmsg.Message
			m, err = conn.Recv(&st)
			m.Close()
		}
		if err != nil || st.Error != "" {
			t.Fatalf("%+v, %v", st, err)
		}
		x.mu.Lock()
		pids := slices.Collect(maps.Keys(x.running))
		x.mu.Unlock()
		var ws unix.WaitStatus
		if len(pids) != 1 {
			t.Fatalf("%d commands run", len(pids))
		}
		if _, err := unix.Wait4(pids[0], &ws, 0, nil); err != nil { // as pid 1 does
			t.Fatal(err)
		}
		x.reaped(pids[0], ws)
		if _, err := conn.Recv(&st); err != nil || st.Stage != handshake.Exit || st.Status != 0 {
			t.Fatalf("%+v, %v", st, err)
		}
		x.mu.Lock()
		open := x.open
		x.mu.Unlock()
		if open != 0 {
			t.Fatalf("%d are counted", open)
		}
	}
}

// TestExecWithoutProcesses: where the limit of processes is reached, as by a build that
// runs away, other commands are refused, and pid 1 lives. It would end in some of such
// runs only, so its threads are counted too.
func TestExecWithoutProcesses(t *testing.T) {
	b := awaited(t)
	if status := b.exec(self("exit", "5")).wait(); status != 5 { // the threads stand before
		t.Errorf("status %d", status)
	}
	if threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.cmd.Process.Pid)); err != nil || len(threads) <= spareThreads {
		t.Errorf("pid 1 has %d threads, %v", len(threads), err)
	}
	var before unix.Rlimit
	err := unix.Prlimit(b.cmd.Process.Pid, unix.RLIMIT_NPROC, nil, &before)
	if err == nil {
		err = unix.Prlimit(b.cmd.Process.Pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: before.Max}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var all sync.WaitGroup
		for range 16 { // as many as aisb has under way
			all.Go(func() {
				if a := b.exec(self("exit", "0")); !strings.Contains(a.stage.Error, "resource temporarily unavailable") {
					t.Errorf("%+v", a.stage)
				}
			})
		}
		all.Wait()
	}
	if err := unix.Prlimit(b.cmd.Process.Pid, unix.RLIMIT_NPROC, &before, nil); err != nil {
		t.Fatal(err)
	}
	if status := b.exec(self("exit", "5")).wait(); status != 5 {
		t.Errorf("status %d", status)
	}
	b.ends()
}

// TestExecAfterStopOfPidOne: no process of the sandbox can stop or starve pid 1, and
// so hold up what the user asks of it.
func TestExecAfterStopOfPidOne(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "stop-init"))
	o := b.started(3)
	b.conn.SetDeadline(time.Time{})
	if line, err := bufio.NewReader(o.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if status := b.exec(self("exit", "6")).wait(); status != 6 {
		t.Errorf("status %d", status)
	}
	b.ends()
}

// TestForkTellsItsOwn: what was noted of a process that had the same number before
// doesn't end a command, what was noted of itself does.
func TestForkTellsItsOwn(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := command{path: "/bin/sh", files: []*os.File{null, null, null}}
	exited := unix.WaitStatus(7 << 8)
	for _, own := range []bool{false, true} {
		x, p := &execs{}, &execution{ended: make(chan struct{})}
		err := x.fork(p, func(handle *int) (int, error) {
			pid, err := c.fork("/", []string{"sh", "-c", "read x; exit 7"}, false, handle)
			if err == nil && own {
				_, err = unix.Wait4(pid, &exited, 0, nil)
			}
			x.reaped(pid, exited)
			return pid, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if own {
			if p.status != 7 || p.pid != 0 {
				t.Errorf("it has ended: status %d, pid %d", p.status, p.pid)
			}
			continue
		}
		select {
		case <-p.ended:
			t.Error("ended by what another has left")
		default:
		}
		pid, ws := p.pid, exited
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
			t.Fatal(err)
		}
		x.reaped(pid, ws)
		if p.status != 7 || len(x.running) > 0 {
			t.Errorf("at its end: status %d, %d running", p.status, len(x.running))
		}
	}
}
