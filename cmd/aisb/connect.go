package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate/policy"
)

// connectPatience is more than a gate takes to look a name up and to connect.
const connectPatience = time.Minute

// connectOptions are the flags of connect.
type connectOptions struct {
	proxy, tokenFile string
}

func newConnectCmd() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:   "connect [flags] HOST PORT",
		Short: "connect standard input and output to a host, through a gate",
		Long: `connect asks a gate for a connection to HOST and joins it with standard input
and output. It is what ssh wants as its ProxyCommand; in a sandbox ssh has it
without being told, and git and rsync by ssh too. What doesn't speak TLS needs a
rule with +tcp: for ssh, --allow HOST:22+tcp.

In a sandbox it takes the sandbox's own gate; elsewhere --proxy names one. The
status is 1 if the gate refuses, which it says on stderr.`,
		Example: `  ssh git@git.example.com                  in a sandbox
  ssh -o 'ProxyCommand aisb connect --proxy http://127.0.0.1:3128 %h %p' HOST`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			e := &exitError{code: exitUsage, err: errors.New("connect takes HOST and PORT"), hint: "see 'aisb connect --help'"}
			if len(args) == 1 {
				host, port, ok := strings.Cut(args[0], ":")
				if !ok {
					port = "22"
				}
				e.hint = "aisb connect " + host + " " + port
			}
			return e
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.connect(cmd.Context(), args[0], args[1], os.Stdin, os.Stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.proxy, "proxy", "", "ask the gate at `URL`, not AISB_GATE's")
	f.StringVar(&o.tokenFile, "auth-token-file", "", "show the gate the token in `FILE`")
	return cmd
}

// connect is the whole command.
func (o connectOptions) connect(ctx context.Context, host, port string, in, out *os.File) error {
	target, err := policy.ParseAuthority(net.JoinHostPort(strings.Trim(host, "[]"), port))
	if err != nil {
		return usageError("aisb connect", fmt.Errorf("%q port %q: %w", host, port, err))
	}
	via, err := o.gate(os.Getenv)
	if err != nil {
		return err
	}
	conn, rest, err := via.open(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = joinStreams(conn, rest, in, out, func() error { return via.whySilent(ctx, target) })
	if _, told := errors.AsType[*exitError](err); err != nil && !told {
		return &exitError{code: 1, err: fmt.Errorf("the connection to %s broke off: %w", target, err)}
	}
	return err
}

// via is a gate and what it wants to be shown.
type via struct {
	url           *url.URL
	authorization string // "" for none
}

// gate is the one to ask.
func (o connectOptions) gate(getenv func(string) string) (via, error) {
	text, from := o.proxy, "--proxy"
	if text == "" {
		text, from = getenv("AISB_GATE"), "AISB_GATE"
	}
	switch {
	case text == "" && inSandbox():
		return via{}, &exitError{code: 1, err: errors.New("this sandbox has no gate: it runs with --no-gate, --net none or --net full"),
			hint: "with --no-gate and --net full, connect directly"}
	case text == "":
		return via{}, &exitError{code: exitUsage, err: errors.New("this is no sandbox, and no gate is named"), hint: "name one: --proxy http://127.0.0.1:3128"}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" {
		return via{}, &exitError{code: exitUsage, err: fmt.Errorf("%s is not http://ADDR:PORT", from), hint: "for example --proxy http://127.0.0.1:3128"}
	}
	v := via{url: u}
	if password, ok := u.User.Password(); ok {
		v.authorization = basic(password)
	}
	if o.tokenFile != "" {
		secret, err := readSecret("--auth-token-file", o.tokenFile)
		if err != nil {
			return via{}, err
		}
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				v.authorization = basic(line)
				break
			}
		}
	}
	return v, nil
}

func basic(token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("aisb:"+token))
}

// open asks for a tunnel. What the host has sent already is read from the reader.
func (v via) open(ctx context.Context, target policy.Target) (*net.TCPConn, io.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", v.url.Host)
	if err != nil {
		return nil, nil, &exitError{code: 1, err: fmt.Errorf("reach the gate: %w", err), hint: "is it still running?"}
	}
	conn := raw.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	head := &io.LimitedReader{R: conn, N: 64 << 10}
	from := bufio.NewReader(head)
	resp, err := v.ask(conn, from, target)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = refused(resp, target)
	} else if err != nil {
		err = &exitError{code: 1, err: fmt.Errorf("ask the gate for %s: %w", target, err)}
	}
	if !stop() && err == nil {
		err = &exitError{code: 1, err: fmt.Errorf("the gate did not answer within %v", connectPatience)}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	head.N = math.MaxInt64
	return conn, from, nil
}

func (v via) ask(conn net.Conn, from *bufio.Reader, target policy.Target) (*http.Response, error) {
	ask := "CONNECT " + target.String() + " HTTP/1.1\r\nHost: " + target.String() + "\r\n"
	if v.authorization != "" {
		ask += "Proxy-Authorization: " + v.authorization + "\r\n"
	}
	if _, err := io.WriteString(conn, ask+"\r\n"); err != nil {
		return nil, err
	}
	return http.ReadResponse(from, &http.Request{Method: http.MethodConnect})
}

// refused is the error of an answer that opens no tunnel. Its body is aisb's own
// text if it has the header: what was refused, why, and what would allow it.
func refused(resp *http.Response, target policy.Target) error {
	defer resp.Body.Close()
	e := &exitError{code: 1, err: fmt.Errorf("the proxy refuses %s: %s", target, resp.Status)}
	reason := resp.Header.Get("X-Aisb-Reason")
	if reason == "" {
		return e
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // half of it says something, too
	what := resp.Status
	var hints []string
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ".")
		if text, ok := strings.CutPrefix(line, "CONNECT "); ok {
			what = text
		}
		if text, ok := strings.CutPrefix(line, "To allow it: "); ok {
			hints = append(hints, "to allow it: "+text)
		}
	}
	if resp.StatusCode == http.StatusForbidden {
		hints = append(hints, "this is policy and final: the person who runs this sandbox can allow it, working round it is not wanted")
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		what, hints = "the gate asks for a token", []string{"--auth-token-file FILE"}
	}
	e.err, e.hint = fmt.Errorf("%s (%s)", what, reason), strings.Join(hints, "\n")
	return e
}

// whySilent explains a tunnel through which nothing came: the gate cuts one that
// isn't TLS where the rule doesn't say that it needn't be, and has no way to tell
// that in words. It is nil where that is not what has happened.
func (v via) whySilent(ctx context.Context, target policy.Target) error {
	c, err := askGate(ctx, v.url.String(), target)
	if err != nil || !c.Allow || c.Rule == "" || strings.Contains(c.Rule, "+tcp") {
		return nil //nolint:nilerr // another proxy, or a gate that is gone: there is nothing to say
	}
	e := &exitError{code: 1, err: fmt.Errorf("nothing came from %s: its rule %q lets TLS through alone", target, c.Rule)}
	if rule := policy.Suggest(target, false, true); rule != "" {
		e.hint = "if it doesn't speak TLS, as ssh doesn't, allow it with --allow " + shellQuote(rule)
	}
	return e
}
