package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/attack"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/terminal"
)

// during tries what the host sees while the session runs.
func (b *battery) during(ctx context.Context, host sandbox.Host, name, gate string) {
	b.extra["gate-from-host"] = b.canaries.FromHost(ctx, gate, sandbox.HostLoopback.String())
	b.extra["secret-in-host-argv"] = attack.InArguments(b.canaries.Plan.Passed)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := host.Podman.Command(ctx, "inspect", name).CombinedOutput()
	switch passed := b.canaries.Plan.Passed; {
	case err != nil:
		b.extra["secret-in-inspect"] = attack.Finding{Verdict: attack.Unknown, Seen: err.Error()}
	case bytes.Contains(out, []byte(passed)):
		b.extra["secret-in-inspect"] = attack.Finding{Verdict: attack.Out, Seen: "it is there"}
	default:
		b.extra["secret-in-inspect"] = attack.Finding{Verdict: attack.Held, Seen: fmt.Sprintf("not in %d bytes", len(out))}
	}
}

// ended judges what the session and its gate say of it.
func (b *battery) ended(spec sandbox.Spec, r sandbox.Result) {
	held := func(id, format string, args ...any) {
		b.extra[id] = attack.Finding{Verdict: attack.Held, Seen: fmt.Sprintf(format, args...)}
	}
	out := func(id, format string, args ...any) {
		b.extra[id] = attack.Finding{Verdict: attack.Out, Seen: fmt.Sprintf(format, args...)}
	}
	b.extra["canaries"] = attack.Finding{Verdict: attack.Held, Seen: "nobody came"}
	b.extra["terminal"] = terminalFinding()
	good := 0
	for _, p := range r.Proof {
		if p.OK {
			good++
		}
	}
	switch {
	case len(r.Proof) == 0 || good < len(r.Proof):
		out("fence-proof", "%d of %d probes", good, len(r.Proof))
	default:
		held("fence-proof", "%d of %d probes held", good, len(r.Proof))
	}
	if spec.Net != sandbox.NetAllow {
		return // nothing is known of a gate that isn't there
	}
	held("session-canary", "nobody came")
	if r.Report.Canary > 0 {
		out("session-canary", "%d connections", r.Report.Canary)
	}
	held("gate-log", "only %s was reached", b.canaries.Plan.Allowed)
	for _, h := range r.Report.Hosts {
		if at := net.JoinHostPort(h.Host, fmt.Sprint(h.Port)); at != b.canaries.Plan.Allowed {
			out("gate-log", "%s was reached %d times", at, h.Count)
		}
	}
}

// outside tries starts that have to be refused: with paths of a made-up home,
// and without a session.
func (b *battery) outside() {
	c := b.canaries
	home := c.Home()
	host := mounts.HostFrom(func(name string) string {
		switch name {
		case "HOME":
			return home
		case "XDG_RUNTIME_DIR":
			return filepath.Join(c.Dir, "runtime")
		}
		return ""
	}, os.Getuid())
	b.extra["empty-allowlist"] = refusedStart(withoutRules())
	plan := func(o mounts.Options) error {
		p, err := mounts.Make(host, o)
		if err == nil {
			p.Close()
		}
		return err
	}
	extra := func(dirs ...string) []error {
		var errs []error
		for _, dir := range dirs {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return []error{nil}
			}
			errs = append(errs, plan(mounts.Options{Dir: c.Project(), Extra: []string{dir + ":/mnt/x"}}))
		}
		return errs
	}
	inDir := func(dir string) error { return plan(mounts.Options{Dir: dir}) }
	ssh := filepath.Join(home, ".ssh")
	b.extra["mount-home"] = refusedStart(inDir(home), inDir("/"))
	b.extra["mount-ssh"] = refusedStart(inDir(ssh), inDir(c.Dir))
	b.extra["mount-state"] = refusedStart(extra(filepath.Join(home, ".local/state/aisb"), filepath.Join(home, ".cache/aisb"),
		filepath.Join(c.Dir, "runtime/aisb"))...)
	link := filepath.Join(c.Dir, "link")
	if err := os.Symlink(home, link); err == nil {
		b.extra["mount-symlink"] = refusedStart(inDir(link))
	}
	tree := filepath.Join(c.Dir, "tree")
	if err := os.Mkdir(tree, 0o700); err == nil {
		if l, err := net.Listen("unix", filepath.Join(tree, "s")); err == nil {
			b.extra["host-socket"] = refusedStart(inDir(tree))
			l.Close()
		}
	}
}

// withoutRules goes the steps of a run that no rule was given.
func withoutRules() error {
	o := runOptions{net: string(sandbox.NetAllow), backend: "auto"}
	p := &prepared{}
	p.spec.Net = sandbox.NetAllow
	if err := o.network(p); err != nil {
		return err
	}
	return o.rules(p)
}

// hostileTexts are such that each makes some terminal do what is not for a program
// in a sandbox (docs/terminal.md).
var hostileTexts = []string{
	"\x1b]52;c;ZXZpbA==\a", "\u009d52;c;ZXZpbA==\u009c", "\x9d52;c;ZXZpbA==\x9c", // set the clipboard
	"\x1b]1337;File=size=4:ZXZpbA==\a", "\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\", // save and read files
	"\x1b[21t", "\x1bP$qm;id\n\x1b\\", "\x1bP+q544e\x1b\\", "\x05", // have an answer typed
	"\x1b[5i", // print
}

// terminalFinding puts them through what stands before the user's terminal.
func terminalFinding() attack.Finding {
	for _, text := range hostileTexts {
		var out bytes.Buffer
		s := &screen{to: &out, filter: terminal.New(&out, terminal.Options{Answers: true})}
		if _, err := s.Write([]byte(text)); err != nil {
			return attack.Finding{Verdict: attack.Unknown, Seen: err.Error()}
		}
		if !utf8.Valid(out.Bytes()) || bytes.ContainsFunc(out.Bytes(), unicode.IsControl) {
			return attack.Finding{Verdict: attack.Out, Seen: fmt.Sprintf("%q passes as %q", text, out.String())}
		}
	}
	return attack.Finding{Verdict: attack.Held, Seen: fmt.Sprintf("the filter takes out all of %d", len(hostileTexts))}
}

// refusedStart judges starts that all have to be refused, each for what it is.
func refusedStart(errs ...error) attack.Finding {
	seen := ""
	for i, err := range errs {
		var refusal *mounts.Refusal
		switch {
		case err == nil:
			return attack.Finding{Verdict: attack.Out, Seen: fmt.Sprintf("attempt %d of %d was not refused", i+1, len(errs))}
		case !errors.As(err, &refusal) && !errors.Is(err, errEmptyList):
			return attack.Finding{Verdict: attack.Unknown, Seen: err.Error()}
		}
		seen = err.Error()
	}
	return attack.Finding{Verdict: attack.Held, Seen: "refused: " + seen}
}
