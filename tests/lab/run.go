//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// order is what the first process of an entry is told.
type order struct {
	Root    string // where to mount the entry's root, on the host
	Overlay string // overlay's options
	Home    string // what to mount on the user's home
	Binds   []bind
	Cgroup  string // the entry's own, below the hierarchy's root
	Net     bool   // set up the network namespace of its own

	AsRoot bool
	Env    []string
	Dir    string
	Argv   []string
}

type bind struct {
	From, To string
	ReadOnly bool
}

// list collects the values of a flag given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// options are the flags of run.
type options struct {
	root, scratch, withGo bool
	net, dir              string
	binds, env            list
	argv                  []string
}

func parseRun(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("lab run", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.BoolVar(&o.root, "root", false, "")
	flags.BoolVar(&o.scratch, "scratch", false, "")
	flags.BoolVar(&o.withGo, "go", false, "")
	flags.StringVar(&o.net, "net", "host", "")
	flags.StringVar(&o.dir, "dir", "", "")
	flags.Var(&o.binds, "bind", "")
	flags.Var(&o.env, "env", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.argv = flags.Args()
	if len(o.argv) == 0 {
		return o, errors.New("no command: lab run [FLAGS] -- CMD")
	}
	if o.net != "host" && o.net != "private" {
		return o, fmt.Errorf("--net %q: host or private", o.net)
	}
	return o, nil
}

// run enters the lab and returns the status of the command there.
func (l *lab) run(args []string) (int, error) {
	o, err := parseRun(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 2, err
	}
	if err := l.makeRoot(); err != nil {
		return 0, err
	}
	if err := l.sweep(); err != nil {
		return 0, err
	}
	ord, err := o.order()
	if err != nil {
		return 2, err
	}
	e, err := l.newEntry()
	if err != nil {
		return 0, err
	}
	defer e.remove()
	release, err := l.lendHome(e, &ord, o.scratch)
	if err != nil {
		return 0, err
	}
	defer release()
	e.complete(l, &ord)
	return e.start(ord, o.net == "private")
}

// order is the part of the order that the flags say.
func (o options) order() (order, error) {
	ord := order{AsRoot: o.root, Env: o.env, Dir: o.dir, Argv: o.argv, Net: o.net == "private"}
	for _, text := range o.binds {
		b, err := parseBind(text)
		if err != nil {
			return ord, err
		}
		ord.Binds = append(ord.Binds, b)
	}
	if o.withGo {
		binds, env, err := goToolchain()
		if err != nil {
			return ord, err
		}
		ord.Binds = append(ord.Binds, binds...)
		ord.Env = append(env, ord.Env...)
	}
	return ord, nil
}

func parseBind(text string) (bind, error) {
	rest, ro := strings.CutSuffix(text, ":ro")
	from, to, ok := strings.Cut(rest, ":")
	if !ok || !filepath.IsAbs(to) {
		return bind{}, fmt.Errorf("--bind %q: SRC:DST[:ro] with an absolute DST", text)
	}
	from, err := filepath.Abs(from)
	if err == nil {
		_, err = os.Stat(from)
	}
	return bind{From: from, To: filepath.Clean(to), ReadOnly: ro}, err
}

// goToolchain lends this machine's Go. Its module cache is the first of the
// proxies (go.dev/ref/mod#module-proxy), so that modules known here need no
// network there; the cache itself stays out of reach of the lab's writes.
func goToolchain() ([]bind, []string, error) {
	command := os.Getenv("GO")
	if command == "" {
		command = "go"
	}
	names := []string{"GOROOT", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS"}
	out, err := exec.Command(command, append([]string{"env", "-json"}, names...)...).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("--go: %s env: %w", command, err)
	}
	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, nil, err
	}
	binds := []bind{{From: env["GOROOT"], To: "/usr/local/go", ReadOnly: true}}
	proxy := env["GOPROXY"]
	if exists(env["GOMODCACHE"] + "/cache/download") {
		binds = append(binds, bind{From: env["GOMODCACHE"], To: "/mnt/gomodcache", ReadOnly: true})
		proxy = "file:///mnt/gomodcache/cache/download," + proxy
	}
	vars := []string{"GOPROXY=" + proxy, "PATH=/usr/local/go/bin:" + defaultPath}
	for _, name := range names[3:] {
		if env[name] != "" {
			vars = append(vars, name+"="+env[name])
		}
	}
	return binds, vars, nil
}

// start runs the entry's first process and waits for it.
func (e *entry) start(ord order, ownNet bool) (int, error) {
	text, err := json.Marshal(ord)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer w.Close()
	into, err := os.Open(e.cgroupDir() + "/" + cgroupLeaf)
	if err != nil {
		return 0, err
	}
	defer into.Close()
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{initName},
		Env:        []string{"TERM=" + os.Getenv("TERM")},
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		ExtraFiles: []*os.File{r},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			Pdeathsig:   syscall.SIGKILL, // whatever ends this process ends the entry
			UseCgroupFD: true,
			CgroupFD:    int(into.Fd()),
		},
	}
	if ownNet {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	restore := rememberForeground()
	defer restore()
	err = cmd.Start()
	r.Close()
	if err != nil {
		return 0, fmt.Errorf("make namespaces: %w", err)
	}
	stop := passSignals(cmd.Process)
	defer stop()
	if _, err := w.Write(text); err != nil {
		return 0, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	w.Close()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return 0, err
		}
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, nil
}

// passSignals hands on what is sent to this process alone. A terminal's ^C, ^\
// and ^Z reach the command by themselves: it is in the same process group.
func passSignals(to *os.Process) (stop func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, passedSignals...)
	dropTerminalSignals()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range ch {
			_ = to.Signal(s) // it may have ended just now
		}
	}()
	return func() { signal.Stop(ch); close(ch); <-done }
}

// dropTerminalSignals takes and drops what a terminal sends to its whole group,
// the command included. Ignoring it would be inherited by the command.
func dropTerminalSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
}

// passedSignals are those that mean the command, not the terminal's group.
var passedSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// rememberForeground gives the terminal back to the group that has it now: a
// shell in the lab takes it and can't return it, since it can't name a group
// outside its PID namespace.
func rememberForeground() func() {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return func() {} // no terminal
	}
	return func() {
		signal.Ignore(syscall.SIGTTOU) // or this stops us, being in the background
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
	}
}
