//go:build linux

// Command lab makes and enters the project's lab: a disposable Debian 13 root
// with an ordinary user and unmodified rootless podman, crun and pasta, for
// machines that have only root and perhaps no podman at all. Call it through
// the script beside this file, which builds it.
//
// Each entry has namespaces of its own (mount, PID, IPC, UTS, with --net private
// also network), a cgroup of its own and an overlay over the cached root, so
// entries don't disturb each other and nothing of one is left when it ends. Only
// the user's home stays, for its images.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

const usage = `usage: lab make                      make the lab's root, where it is missing
       lab run [FLAGS] -- CMD...     run CMD in the lab, as the user dev
       lab base                      make a Debian base image, print its tar's path
       lab base-image                the same, imported for dev as localhost/aisb-base:trixie
       lab old-pasta                 get an older pasta, where this machine's packages have one,
                                     and print its directory
       lab path                      print where the lab's root is
       lab clean                     remove all labs

flags of run:
  --root                 as root
  --bind SRC:DST[:ro]    bind mount of the host (repeatable)
  --env NAME=VALUE       set in CMD's environment, which is otherwise made anew (repeatable)
  --dir DIR              working directory (default: the home directory)
  --net host|private     the machine's network (default), or one with no way out
  --scratch              with a new home that goes at the end, and the images of the lasting
                         one to read, which aisb knows too; without it entries wait for each
                         other, and what they make in the home stays
  --go                   with the machine's Go, and its modules as the first proxy
`

func main() {
	// A child's parent-death signal comes when the thread that started it ends
	// (prctl(2), PR_SET_PDEATHSIG), so all children are this thread's.
	runtime.LockOSThread()
	if os.Args[0] == initName {
		os.Exit(initMain())
	}
	code, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: error:", err)
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
	lab, err := open()
	if err != nil {
		return 0, err
	}
	switch args[0] {
	case "make":
		err = lab.makeRoot()
	case "path":
		fmt.Println(lab.dir)
	case "base":
		var tar string
		if tar, err = lab.makeBase(); err == nil {
			fmt.Println(tar)
		}
	case "old-pasta":
		var dir string
		if dir, err = lab.oldPasta(); err == nil {
			fmt.Println(dir)
		}
	case "base-image":
		err = lab.importBase()
	case "run":
		return lab.run(args[1:])
	case "clean":
		err = lab.clean()
	default:
		return 2, fmt.Errorf("unknown command %q: see 'lab help'", args[0])
	}
	return 0, err
}

// open finds the lab's place. Making namespaces and mounts needs root.
func open() (*lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("needs root (an ordinary user doesn't need the lab but podman, passt and uidmap)")
	}
	cache := os.Getenv("AISB_LAB_CACHE")
	if cache == "" {
		return nil, errors.New("AISB_LAB_CACHE is not set: call tests/lab/lab")
	}
	return newLab(cache)
}

// say prints a line of progress; stdout belongs to what runs.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "lab: "+format+"\n", args...)
}
