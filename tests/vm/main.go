//go:build linux

// Command vm boots a disposable Debian 13 with systemd, cgroup v2, Debian's own
// kernel and an ordinary user with a session and rootless podman, and runs one
// command there. What the lab can't show is seen in it: limits, which need
// delegated controllers, and a machine of which no part was made for aisb. Call it
// through the script beside this file, which builds it.
//
// The disk is made once, by the lab. A run writes to a throw-away layer over it,
// and its machine ends with it, whatever ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: vm make                       make the VM's disk, where it is missing (needs root)
       vm run [FLAGS] -- CMD...      boot, run CMD as the user dev, print what it prints
       vm path                       print where the disk is
       vm clean                      remove it

flags of run:
  --root             as root
  --file SRC:DST     copy a file or a directory of the host in (repeatable)
  --limit DURATION   end the machine and fail when CMD hasn't ended then (default 10m)
  --console FILE     write the machine's console there
  --reboot           CMD may boot the machine again, and is started again then:
                     as root it writes into /run/aisb-vm/reboot how, "orderly" or
                     "cut" (as by a loss of power), and ends

The status is CMD's, 124 when the time was up, 125 when the machine failed.
`

// Statuses beside the command's, as timeout(1) and podman have them.
const (
	statusLate   = 124
	statusFailed = 125
)

func main() {
	// A child's parent-death signal comes when the thread that started it ends
	// (prctl(2), PR_SET_PDEATHSIG), so all children are this thread's.
	runtime.LockOSThread()
	code, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm: error:", err)
		if code == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

func command(args []string) (int, error) {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2, nil
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Print(usage)
		return 0, nil
	}
	p, err := open()
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch args[0] {
	case "make":
		err = p.make(ctx)
	case "path":
		fmt.Println(p.dir)
	case "clean":
		err = p.clean()
	case "run":
		o, err := parseRun(args[1:])
		if errors.Is(err, flag.ErrHelp) {
			return 0, nil
		}
		if err != nil {
			return 2, err
		}
		if err := p.make(ctx); err != nil {
			return statusFailed, err
		}
		return p.run(ctx, o)
	default:
		return 2, fmt.Errorf("unknown command %q: see 'vm help'", args[0])
	}
	return 0, err
}

// options are the flags of run.
type options struct {
	root    bool
	reboot  bool
	files   []file
	limit   time.Duration
	console string
	argv    []string
}

// file is what a run copies in.
type file struct{ From, To string }

func parseRun(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("vm run", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.BoolVar(&o.root, "root", false, "")
	flags.BoolVar(&o.reboot, "reboot", false, "")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "")
	flags.StringVar(&o.console, "console", "", "")
	flags.Func("file", "", func(text string) error {
		from, to, ok := strings.Cut(text, ":")
		if !ok || from == "" || !filepath.IsAbs(to) {
			return errors.New("SRC:DST with an absolute DST")
		}
		o.files = append(o.files, file{From: from, To: filepath.Clean(to)})
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.argv = flags.Args(); len(o.argv) == 0 {
		return o, errors.New("no command: vm run [FLAGS] -- CMD")
	}
	if o.limit <= 0 {
		return o, fmt.Errorf("--limit %v: a time that the command may take", o.limit)
	}
	return o, nil
}

// say prints a line of progress; stdout belongs to what runs.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "vm: "+format+"\n", args...)
}
