//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the hidden command of aisb that is the part inside. Without an
// argument it runs the battery, with the ids of attacks those alone.
const Command = "attack-inside"

// Answer is a line of what the part inside says.
type Answer struct {
	ID     string `json:"id,omitempty"`
	Millis int64  `json:"ms,omitempty"`
	Finding

	Gate string `json:"gate,omitempty"` // in the first line: the session's gate, as named inside
	Done bool   `json:"done,omitempty"` // in the last line
}

// timeout bounds one attack, workers how many are at work at once.
const (
	timeout = 4 * time.Second
	workers = 6
)

// Inside is the part inside: it reads the plan from stdin and writes a line for
// each attack and control. It returns the exit status.
func Inside(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := inside(args, stdin, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "aisb: error: %v\n", err)
		return 2
	}
	return 0
}

func inside(args []string, stdin io.Reader, stdout io.Writer) error {
	// What is tried here is kept away from any other machine.
	if comm, err := os.ReadFile("/proc/1/comm"); err != nil || string(comm) != "aisb-entry\n" {
		return errors.New("this runs in a sandbox of aisb alone")
	}
	text, err := io.ReadAll(io.LimitReader(stdin, 1<<20))
	if err != nil {
		return err
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	p.Gate = gateOf(os.Getenv)
	if len(args) > 0 {
		return some(args, p, stdout)
	}
	return all(text, p, stdout)
}

// some runs attacks in this process, one after the other, and writes a line for
// each.
func some(ids []string, p Plan, stdout io.Writer) error {
	out := json.NewEncoder(stdout)
	all := append(Battery(), Controls()...)
	for _, id := range ids {
		i := slices.IndexFunc(all, func(a Attack) bool { return a.ID == id && a.Run != nil })
		if i < 0 {
			return fmt.Errorf("no attack has the id %q", id)
		}
		if err := out.Encode(answer(all[i], p)); err != nil {
			return err
		}
	}
	return nil
}

func answer(a Attack, p Plan) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p.ID = a.ID
	begin := time.Now()
	finding := a.Run(ctx, p)
	return Answer{ID: a.ID, Millis: time.Since(begin).Milliseconds(), Finding: finding}
}

// all runs everything in processes of its own: a filter may answer by a signal,
// and what one spoils is gone with it.
func all(plan []byte, p Plan, stdout io.Writer) error {
	out := json.NewEncoder(stdout)
	var mu sync.Mutex
	var failed error
	say := func(a Answer) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(a); err != nil {
			failed = err
		}
	}
	say(Answer{Gate: p.Gate})
	together, alone := batches(append(Controls(), Battery()...))
	jobs := make(chan []string)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ids := range jobs {
				children(ids, plan, say)
			}
		})
	}
	for _, ids := range together {
		jobs <- ids
	}
	close(jobs)
	wg.Wait()
	for _, id := range alone {
		children([]string{id}, plan, say)
	}
	say(Answer{Done: true})
	return failed
}

// batches are the attacks by the processes that they are run in.
func batches(list []Attack) (together [][]string, alone []string) {
	const most = 12
	var batch []string
	for _, a := range list {
		switch {
		case a.Run == nil:
		case a.Alone:
			alone = append(alone, a.ID)
		case a.Own:
			together = append(together, []string{a.ID})
		default:
			if batch = append(batch, a.ID); len(batch) == most {
				together, batch = append(together, batch), nil
			}
		}
	}
	if batch != nil {
		together = append(together, batch)
	}
	return together, alone
}

// children runs attacks in one process, as long as it lives: the one at which it
// ended has no finding, those after it are run in another.
func children(ids []string, plan []byte, say func(Answer)) {
	for len(ids) > 0 {
		n, why := child(ids, plan, say)
		if ids = ids[n:]; len(ids) > 0 {
			say(Answer{ID: ids[0], Finding: unknown("%s", why)})
			ids = ids[1:]
		}
	}
}

// child runs attacks in a process that is killed, with all it started, when one
// takes too long. It returns how many answered, and how it ended.
func child(ids []string, plan []byte, say func(Answer)) (n int, why string) {
	cmd := exec.Command("/proc/self/exe", append([]string{Command}, ids...)...)
	cmd.Stdin = bytes.NewReader(plan)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err.Error()
	}
	late := time.AfterFunc(2*timeout, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	for lines := json.NewDecoder(stdout); n < len(ids); n++ {
		var a Answer
		if lines.Decode(&a) != nil {
			break
		}
		late.Reset(2 * timeout)
		say(a)
	}
	inTime := late.Stop()
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // and what it has left behind
	err = cmd.Wait()
	return n, ended(!inTime, err, stderr.String())
}

// ended says why an attack has no finding. By a signal it may have been
// stopped, but nobody can tell from this.
func ended(late bool, err error, stderr string) string {
	if late {
		return "took too long, and was ended"
	}
	first, _, _ := strings.Cut(stderr, "\n")
	return strings.TrimSpace(fmt.Sprintf("%v %s", err, first))
}

// Controls are the same means put to what may be reached: each must work, or
// the battery shows nothing. Their verdict is Out when they do.
func Controls() []Attack {
	all := []Attack{
		{ID: "may-tcp", Try: "a TCP socket", Run: socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{ID: "may-tcp6", Try: "an IPv6 socket", Run: socket(unix.AF_INET6, unix.SOCK_STREAM, 0)},
		{ID: "may-unix", Try: "a unix socket", Run: socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{ID: "may-netlink-route", Try: "netlink for routes", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{ID: "may-clone", Try: "a plain clone", Run: call(func() error { return fork(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) })},
		{ID: "may-unshare", Try: "a plain unshare", Run: call(func() error { return alone(unix.SYS_UNSHARE, unix.CLONE_FILES) })},
		{ID: "may-write-project", Try: "make a file in the project", Run: makes(project)},
		{ID: "may-write-tmp", Try: "make a file in /tmp", Run: makes("/tmp")},
		{ID: "may-connect-loopback", Try: "TCP and UDP on the own loopback", Run: loopback},
		{ID: "may-see-environ", Try: "find the passed secret in the own environment", Run: func(_ context.Context, p Plan) Finding {
			return holds([]byte(strings.Join(os.Environ(), "\x00")), p.Passed, "the own environment")
		}},
		{ID: "may-gate-get", Try: "the listed service by GET", Run: needsGate(func(p Plan) string { return get("http://" + p.Allowed + "/") })},
		{ID: "may-gate-connect", Try: "a tunnel to the listed service", Run: needsGate(func(p Plan) string { return connect(p.Allowed) })},
		{ID: "may-tunnel-tls", Try: "TLS for the tunnel's own name", Run: func(ctx context.Context, p Plan) Finding {
			if !p.Gated {
				return notHere
			}
			host, _, _ := net.SplitHostPort(p.Allowed)
			return tunnelTLS(ctx, p, host)
		}},
		{ID: "may-resolve-listed", Try: "the canary name server by a listed name", Run: func(ctx context.Context, p Plan) Finding {
			if !p.Gated {
				return notHere
			}
			a, err := gateAsk(ctx, p, get("http://"+rebindName("may-resolve-listed")+":80/"))
			if err == nil && (a.reason == "nxdomain" || a.reason == "dns-failure") {
				return got("%v", a)
			}
			return unknown("%v %v", a, err)
		}},
	}
	for i := range all {
		all[i].Row = control
	}
	return all
}

// control is the row of what is no attack.
const control = "control"

// notHere is the finding of a control for what this session doesn't have.
var notHere = Finding{Out, "this session has no gate"}

func needsGate(raw func(Plan) string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		if !p.Gated {
			return notHere
		}
		return asks(raw)(ctx, p)
	}
}

// loopback connects and sends to itself.
func loopback(ctx context.Context, p Plan) Finding {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	defer u.Close()
	for _, f := range []Finding{dialTCP(ctx, p, l.Addr().String()), sendUDP(p, u.LocalAddr().String())} {
		if f.Verdict != Out {
			return f
		}
	}
	return got("both")
}
