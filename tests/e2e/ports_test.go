//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// answering is a server in the sandbox that says a line to each client, at an address.
const answering = `import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 8080))
s.listen(50)
print("listening", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"served\n")
    c.close()
`

// port is the host's that leads in, as the run has said.
func (l *live) port() string {
	l.t.Helper()
	re := regexp.MustCompile(`aisb: 127\.0\.0\.1:([0-9]+) leads to port 8080 in the sandbox\n`)
	l.waitErr(" leads to port 8080 in the sandbox\n")
	return re.FindStringSubmatch(l.stderr.String())[1]
}

// readAs reads what 127.0.0.1:port says to a process of uid.
func readAs(t *testing.T, uid int, port string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", `exec 3<>"/dev/tcp/127.0.0.1/$0" && read -r line <&3 && echo "$line"`, port)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, _ := cmd.Output() // what it read tells
	if ctx.Err() != nil {
		t.Fatalf("uid %d hangs at port %s", uid, port)
	}
	return strings.TrimSpace(string(out))
}

// A server in the sandbox, at whichever address of its loopback, is there for the
// user on the host's 127.0.0.1, in every network mode, and for nobody else.
func TestPublish(t *testing.T) {
	for name, flags := range map[string][]string{
		"gate":    allowed,
		"none":    {"--net", "none"},
		"full":    {"--net", "full"},
		"no gate": {"--no-gate", "--allow", "allowed.test", "--net-backend", "auto"},
	} {
		if name == "no gate" && backend == "inner" {
			continue // --no-gate is pasta's
		}
		t.Run(name, func(t *testing.T) {
			addr := map[string]string{"gate": "127.0.0.1", "none": "::1", "full": "0.0.0.0", "no gate": "::"}[name]
			c := call{dir: project(t)}
			write(t, c.dir, "serve.py", answering)
			l := c.start(t, append(flags, "-p", "0:8080"), "python3", "serve.py", addr)
			port := l.port()
			l.waitOut("listening\n")
			if got := readAs(t, agent.uid, port); got != "served" {
				t.Errorf("the user reads %q\n%s", got, l.stderr)
			}
			if got := readAs(t, 65534, port); got != "" {
				t.Errorf("another user reads %q", got)
			}
			for _, host := range []string{hostAddr, hostPublic, "::1"} {
				if conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second); err == nil {
					conn.Close()
					t.Errorf("the port is open at %s", host)
				}
			}
			var list []struct{ Ports []struct{ Host, Sandbox int } }
			if err := json.Unmarshal([]byte(c.do(t, "ps", "--json").stdout), &list); err != nil || len(list) != 1 ||
				fmt.Sprint(list[0].Ports) != "[{"+port+" 8080}]" {
				t.Errorf("ps: %+v, %v", list, err)
			}
			wantIn(t, "ps", c.do(t, "ps").stdout, "PORTS", port+"->8080")
			l.signal(syscall.SIGTERM)
			o := l.wait(runTimeout)
			wantIn(t, "receipt", o.stderr, "aisb: warning: 1 connection to published ports came from other users of this machine, all refused\n")
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				conn.Close()
				t.Error("the port is open after the end")
			}
		})
	}
}

// Where nobody listens clients are refused; while the sandbox stands still they wait,
// and neither they nor the run is lost.
func TestPublishOfASandboxThatStandsStill(t *testing.T) {
	c := call{dir: project(t)}
	write(t, c.dir, "serve.py", answering)
	l := c.start(t, []string{"--net", "none", "-p", "0:8080"}, sh("echo ready; read line; exec python3 serve.py 127.0.0.1")...)
	port := l.port()
	l.waitOut("ready\n")
	if got := readAs(t, agent.uid, port); got != "" {
		t.Errorf("without a server one reads %q", got)
	}
	l.say("go")
	l.waitOut("listening\n")
	pid1 := child(t, "aisb-entry")
	syscall.Kill(pid1, syscall.SIGSTOP)
	waitStopped(t, pid1)
	defer syscall.Kill(pid1, syscall.SIGCONT)
	got := make(chan string, 1)
	go func() { got <- readAs(t, agent.uid, port) }()
	select {
	case text := <-got:
		t.Errorf("while pid 1 stands still one reads %q", text)
	case <-time.After(300 * time.Millisecond):
	}
	syscall.Kill(pid1, syscall.SIGCONT)
	if text := <-got; text != "served" {
		t.Errorf("afterwards one reads %q", text)
	}
	l.signal(syscall.SIGTERM)
	l.wait(runTimeout)
}

// TestPublishTaken: a port that another program has ends the run before anything
// starts.
func TestPublishTaken(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	o := aisb(t, []string{"--net", "none", "-p", fmt.Sprintf("%d:80", port)}, "true")
	o.wantStatus(t, 2)
	wantIn(t, "stderr", o.stderr, fmt.Sprintf("aisb: error: --publish %d: another program has 127.0.0.1:%d\n", port, port), "aisb: hint: take another port: -p ")
}
