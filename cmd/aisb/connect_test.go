package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// connectGate is a real gate that lets through to a server on this machine.
// TestMain has put aisb into PATH.
func connectGate(t *testing.T, options string, args ...string) (*fakes.Gate, func(talk fakes.Talk) (port string)) {
	t.Helper()
	var servers []*fakes.TCP
	talks := make([]atomic.Pointer[fakes.Talk], 4)
	for i := range talks { // their ports have to be known before the gate starts
		server, err := fakes.StartTCP("127.0.0.1:0", func(c *net.TCPConn) int64 { return (*talks[i].Load())(c) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		servers = append(servers, server)
		args = append(args, "--allow", fmt.Sprintf("host.containers.internal:%d%s", server.Addr.Port(), options))
	}
	g, err := fakes.StartGate(exec.Command("aisb", append([]string{"gate", "--listen", "127.0.0.1:0"}, args...)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	used := 0
	return g, func(talk fakes.Talk) string {
		talks[used].Store(&talk)
		used++
		return fmt.Sprint(servers[used-1].Addr.Port())
	}
}

// connectCmd is aisb connect, by the gate of a sandbox.
func connectCmd(g *fakes.Gate, args ...string) *exec.Cmd {
	cmd := exec.Command("aisb", append([]string{"connect"}, args...)...)
	cmd.Env = append(os.Environ(), "AISB_GATE=http://"+g.Addr)
	return cmd
}

const serviceHost = "host.containers.internal"

// What goes in comes back, to the last byte and not a moment later.
func TestConnectEcho(t *testing.T) {
	g, port := connectGate(t, "+tcp")
	const size = 256 << 20
	sent, got := sha256.New(), sha256.New()
	cmd := connectCmd(g, serviceHost, port(fakes.Echo))
	cmd.Stdin = io.TeeReader(fakes.Pattern(size), sent)
	cmd.Stdout = got
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("what came back differs")
	}
}

// Each side may end before the other, which goes on.
func TestConnectHalfClose(t *testing.T) {
	g, port := connectGate(t, "+tcp")
	cmd := connectCmd(g, serviceHost, port(fakes.Count))
	cmd.Stdin = strings.NewReader("12345")
	if out, err := cmd.Output(); string(out) != "5 bytes\n" || err != nil {
		t.Errorf("after our end: %q, %v", out, err)
	}

	received := make(chan int64, 1)
	cmd = connectCmd(g, serviceHost, port(func(c *net.TCPConn) int64 {
		n := fakes.HalfClosed("all I have\n")(c)
		received <- n
		return n
	}))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); string(got) != "all I have\n" || err != nil {
		t.Errorf("until the host's end: %q, %v", got, err)
	}
	io.WriteString(in, "more")
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	select {
	case n := <-received:
		if n != 4 {
			t.Errorf("after its end the host got %d bytes", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("the host waits for our end")
	}
}

// A host that speaks first, as ssh's do, is heard.
func TestConnectBanner(t *testing.T) {
	g, port := connectGate(t, "+tcp")
	cmd := connectCmd(g, serviceHost, port(fakes.Banner("SSH-2.0-test\r\n")))
	cmd.Stdin = strings.NewReader("x")
	if out, err := cmd.Output(); string(out) != "SSH-2.0-test\r\nx" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// A refusal says why and what would help, also one that comes after the 200.
func TestConnectRefused(t *testing.T) {
	g, port := connectGate(t, "")
	for _, c := range []struct {
		args []string
		in   string
		want []string
	}{
		{[]string{"git.test", "22"}, "", []string{
			"aisb: error: git.test:22 was refused: no rule allows this host (not-listed)\n",
			"aisb: hint: to allow it: aisb gate --allow 'git.test:22+tcp'\n", "aisb: hint: this is policy and final",
		}},
		{[]string{"2001:db8::1", "22"}, "", []string{"aisb: error: [2001:db8::1]:22 was refused: ", "(ip-literal)\n"}},
		{[]string{"[2001:db8::1]", "22"}, "", []string{"aisb: error: [2001:db8::1]:22 was refused: "}},
		{[]string{serviceHost, port(fakes.Banner("SSH-2.0-test\r\n"))}, "SSH-2.0-client\r\n", []string{
			"aisb: error: nothing came from host.containers.internal:", " lets TLS through alone\n",
			"aisb: hint: if it doesn't speak TLS, as ssh doesn't, allow it with --allow host.containers.internal:", "+tcp\n",
		}},
	} {
		cmd := connectCmd(g, c.args...)
		cmd.Stdin = strings.NewReader(c.in)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run() // the status says it
		if cmd.ProcessState.ExitCode() != 1 || out.Len() > 0 {
			t.Errorf("%q: status %d, wrote %q", c.args, cmd.ProcessState.ExitCode(), out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, errs.String())
			}
		}
	}
}

// A gate that wants a token gets it from a file or out of the URL.
func TestConnectToken(t *testing.T) {
	const token = "0123456789abcdef0123"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("# of the tests\n"+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, port := connectGate(t, "+tcp", "--auth-token-file", file)
	to := port(fakes.Count)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"none":     {nil, "aisb: error: the gate asks for a token"},
		"by file":  {[]string{"--auth-token-file", file}, ""},
		"by URL":   {[]string{"--proxy", "http://aisb:" + token + "@" + g.Addr}, ""},
		"a false":  {[]string{"--proxy", "http://aisb:wrong-wrong-wrong@" + g.Addr}, "aisb: error: the gate asks for a token"},
		"no proxy": {[]string{"--proxy", "ftp://x"}, "aisb: error: --proxy is not http://ADDR:PORT"},
	} {
		cmd := connectCmd(g, append(c.args, serviceHost, to)...)
		cmd.Stdin = strings.NewReader("1")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if c.want == "" && (err != nil || string(out) != "1 bytes\n") || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %q, %v, %s", name, out, err, errs.String())
		}
		if strings.Contains(errs.String(), "wrong-wrong") {
			t.Errorf("%s: the token is shown: %s", name, errs.String())
		}
	}
}
