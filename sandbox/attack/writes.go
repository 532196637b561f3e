//go:build linux

package attack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// cannotWrite opens files of the kernel's for writing, and writes nothing. One
// that isn't there can't be written either.
func cannotWrite(paths ...string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		var list []Finding
		for _, path := range paths {
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			switch err {
			case nil:
				unix.Close(fd)
				return got("opened %s for writing", path)
			case unix.ENOENT:
				list = append(list, held("no such file"))
			default:
				list = append(list, judged(err))
			}
		}
		return worst(list)
	}
}

// written are attacks on what outlives the project's directory: the system of
// the image and its package managers (T12).
func written() []Attack {
	return []Attack{
		{ID: "write-etc", Row: "T12", Try: "make a file in /etc", Run: makes("/etc")},
		{ID: "write-passwd", Row: "T12", Try: "write /etc/passwd, shadow, sudoers, ld.so.preload", Run: overwrites("/etc/passwd", "/etc/shadow", "/etc/ld.so.preload", "/etc/profile")},
		{ID: "write-resolv", Row: "T12", Try: "write /etc/resolv.conf and /etc/hosts", Run: overwrites("/etc/resolv.conf", "/etc/hosts")},
		{ID: "write-usr", Row: "T12", Try: "make a file in /usr/bin, /usr/lib, /usr/local/bin", Run: makes("/usr/bin", "/usr/lib", "/usr/local/bin", "/bin", "/sbin")},
		{ID: "write-root", Row: "T12", Try: "make a file in /, /opt, /srv, /var/lib", Run: makes("/", "/opt", "/srv", "/var/lib", "/var/spool/cron")},
		{ID: "write-aisb", Row: "T12", Try: "replace aisb's own binary", Run: overwrites("/usr/local/bin/aisb", "/usr/libexec/aisb-entry")},
		{ID: "write-apt", Row: "T12", Try: "the package manager's database and lists", Run: makes("/var/lib/dpkg", "/var/lib/apt/lists", "/var/cache/apt/archives", "/etc/apt/sources.list.d")},
		{ID: "write-npm", Row: "T12", Try: "global npm modules", Run: makesGlob("/usr/lib/node_modules", "/usr/local/lib/node_modules", "/usr/local/lib")},
		{ID: "write-pip", Row: "T12", Try: "global Python packages", Run: makesGlob("/usr/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages", "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*")},
	}
}

// makes tries to make a file in each directory; one that the image lacks is
// passed over.
func makes(dirs ...string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		var list []Finding
		for _, dir := range dirs {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			path := filepath.Join(dir, "aisb-attack-file")
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				f.Close()
				os.Remove(path)
				return got("made %s", path)
			}
			list = append(list, judged(err))
		}
		return worst(list)
	}
}

func makesGlob(patterns ...string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		var dirs []string
		for _, pattern := range patterns {
			found, _ := filepath.Glob(pattern)
			dirs = append(dirs, found...)
		}
		return makes(dirs...)(ctx, p)
	}
}

// overwrites tries to open each file for writing and to put another in its place.
func overwrites(paths ...string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		var list []Finding
		for _, path := range paths {
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
				return got("opened %s for writing", path)
			}
			list = append(list, judged(err))
			if err := unix.Rename(path, path+".aisb-attack"); err == nil {
				_ = unix.Rename(path+".aisb-attack", path)
				return got("moved %s away", path)
			}
		}
		return worst(list)
	}
}

// planted are attacks by what the host runs later (T15). Each writes into a
// project that the battery made, never into one of the user's.
func planted() []Attack {
	var list []Attack
	for _, t := range []struct{ id, try, path string }{
		{"git-hook", "a git hook", ".git/hooks/pre-commit"},
		{"git-config", "git's configuration: fsmonitor, filters, hooksPath", ".git/config"},
		{"git-commondir", "git's commondir", ".git/commondir"},
		{"git-modules", "a nested repository", ".git/modules/x/config"},
		{"git-dir-swap", "another directory in place of .git", ".git"},
		{"vscode", "an editor's tasks", ".vscode/tasks.json"},
		{"envrc", "a shell's start-up file", ".envrc"},
		{"npmrc", "a package manager's configuration", ".npmrc"},
		{"claude", "an agent's hooks", ".claude/settings.json"},
		{"mcp", "an agent's servers", ".mcp.json"},
		{"workflow", "a workflow of the CI", ".github/workflows/x.yml"},
		{"venv", "a program in a virtual environment", ".venv/bin/python"},
	} {
		list = append(list, Attack{ID: "plant-" + t.id, Row: "T15", Try: "plant " + t.try,
			Run: func(context.Context, Plan) Finding { return plant(filepath.Join(project, t.path)) }})
	}
	return append(list, Attack{ID: "plant-aisb-toml", Row: "T16", Try: "widen the policy of the next run by .aisb.toml",
		Run: func(context.Context, Plan) Finding { return plant(project + "/.aisb.toml") }})
}

// plant appends to a file that exists; of a directory it tries the way round,
// by renaming.
func plant(path string) Finding {
	info, err := os.Stat(path)
	if err != nil {
		return unknown("could not be tried: %s", errnoName(err))
	}
	if info.IsDir() {
		if err := os.Rename(path, path+".aisb-attack"); err != nil {
			return judged(err)
		}
		if err := os.Rename(path+".aisb-attack", path); err != nil {
			return got("moved %s away, and could not move it back: %s", path, errnoName(err))
		}
		return got("moved %s away", path)
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return judged(err)
	}
	unix.Close(fd)
	return got("opened %s for writing", path)
}

func keptHome(context.Context, Plan) Finding {
	mounts, err := mountinfo.Read()
	if err != nil {
		return unknown("%v", err)
	}
	for _, m := range mounts {
		if m.Target == "/home/agent" && m.Type == "tmpfs" {
			return held("the home is a tmpfs")
		}
	}
	return got("the home is kept")
}

// limits are attacks on the host's resources (T11). Nothing is used up: a limit
// that the kernel names is believed, one that isn't there is said.
func limits() []Attack {
	return []Attack{
		{ID: "limit-processes", Row: "T11", Try: "a fork bomb: is the number of processes limited", Run: cgroupLimit("pids.max")},
		{ID: "limit-memory", Row: "T11", Try: "a memory bomb: is memory limited", Run: cgroupLimit("memory.max")},
		{ID: "limit-cpu", Row: "T11", Try: "a runaway build: is cpu time limited", Run: cgroupLimit("cpu.max")},
		{ID: "limit-tmpfs", Row: "T11", Try: "fill /tmp beyond its limit", Run: fillTmp},
		{ID: "limit-shm", Row: "T11", Try: "fill /dev/shm beyond any limit", Run: sizeLimit("/dev/shm")},
		{ID: "limit-core", Row: "T4", Try: "leave a core dump with what memory holds", Run: coreDump},
		{ID: "raise-limits", Row: "T11", Try: "raise the hard limit of core dumps", Own: true, Run: call(func() error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		})},
	}
}

func cgroupLimit(name string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		text, err := os.ReadFile("/sys/fs/cgroup/" + name)
		value := strings.TrimSpace(string(text))
		switch {
		case err != nil:
			return unknown("%s is not there: this host enforces no such limit", name)
		case strings.HasPrefix(value, "max"):
			return unknown("%s is %s: no limit was asked for", name, value)
		}
		return held("%s is %s", name, value)
	}
}

// fillTmp asks for one page more than all of it. tmpfs compares that with its
// limit before it takes a page (shmem_fallocate in mm/shmem.c).
func fillTmp(_ context.Context, p Plan) Finding {
	if p.Tmpfs == 0 {
		return unknown("no limit was asked for")
	}
	fd, err := unix.Open("/tmp", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return unknown("could not be tried: %s", errnoName(err))
	}
	defer unix.Close(fd)
	return judged(unix.Fallocate(fd, 0, 0, int64(p.Tmpfs)+4096))
}

func sizeLimit(dir string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return unknown("%s", errnoName(err))
		}
		if size := st.Blocks * uint64(st.Bsize); size > 0 && size <= 1<<30 {
			return held("at most %s MiB", strconv.FormatUint(size>>20, 10))
		}
		return unknown("no limit below 1 GiB")
	}
}

// coreDump: 1 stops a dump into a file and into a pipe (core(5)), 0 only the
// first.
func coreDump(context.Context, Plan) Finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil {
		return unknown("%s", errnoName(err))
	}
	if l.Max > 1 {
		return got("the limit is %d", l.Max)
	}
	return held("the limit is %d", l.Max)
}
