package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aisb-dev/aisb/sandbox/podman"
	"golang.org/x/sys/unix"
)

// Each program gets so long. They run at the same time. A busy or emulated machine
// takes seconds for what is tens of milliseconds elsewhere.
const (
	slow  = 15 * time.Second // podman and what else may wait for a disk
	quick = 5 * time.Second
)

// Collect finds out what Examine judges. It changes nothing but what podman
// itself makes at its first call, and ends in time whatever hangs.
func Collect(ctx context.Context, h Host) Facts {
	f := Facts{
		UID: h.UID, Env: map[string]string{}, Sysctl: map[string]string{},
		RuntimeDir: h.RuntimeDir, RuntimeDirErr: h.RuntimeDirErr, Core: h.Core, CoreErr: h.CoreErr,
		PodmanPath: h.Podman.Path, PodmanHidden: h.Hidden, PodmanConfErr: h.ConfErr,
		PastaOptions: h.PastaOptions, Limits: h.Limits, Settings: h.Settings, Image: h.Image, Cgo: h.Cgo, Upstream: h.Upstream,
		Enclose: h.EncloseErr == "", EncloseErr: h.EncloseErr, Landlock: h.Landlock, LandlockErr: h.LandlockErr,
	}
	for _, name := range Variables {
		if v := h.Getenv(name); v != "" {
			f.Env[name] = v
		}
	}
	if u, err := user.LookupId(strconv.Itoa(h.UID)); err == nil {
		f.Name = u.Username
	} else {
		f.Name = h.Getenv("USER") // of a directory service, which a static binary can't ask
	}
	var wg sync.WaitGroup
	for _, part := range []func(){
		func() { f.podman(ctx, h) },
		func() { f.imageExists(ctx, h) },
		func() { f.pasta(ctx) },
		func() { f.trial(ctx, h) },
		func() { f.Git = gitState(ctx, h.Dir) },
		func() { f.files(ctx, h) },
	} {
		wg.Go(part)
	}
	wg.Wait()
	return f
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// podmanCommand is podman as a run has it; without a configuration for it, it is
// only good for its version.
func (f *Facts) podmanCommand(h Host, args ...string) command {
	if h.Podman.Path == "" {
		return command{}
	}
	if h.ConfErr != "" || h.UID == 0 {
		return command{path: h.Podman.Path, args: args, env: []string{"PATH=" + h.Getenv("PATH"), "HOME=" + h.Getenv("HOME")}}
	}
	cmd := h.Podman.Command(context.Background(), args...) // for its arguments; run makes its own
	return command{path: cmd.Path, args: cmd.Args[1:], env: cmd.Env}
}

// podman asks podman, and looks at the file system that it names. As root
// podman would make storage that nobody wants. What it says of itself has the
// version too: another call would cost as much as half of a run's start.
func (f *Facts) podman(ctx context.Context, h Host) {
	if h.UID != 0 && h.ConfErr == "" && h.Podman.Path != "" {
		f.PodmanInfo = run(ctx, slow, f.podmanCommand(h, "info", "--format", "json"))
	}
	i := readInfo(f.PodmanInfo) // not f.info, which copies all of f: others write to it meanwhile
	if i == nil {
		f.PodmanVersion = run(ctx, quick, f.podmanCommand(h, "--version"))
		return
	}
	f.PodmanVersion = f.PodmanInfo
	f.PodmanVersion.Text = "podman " + i.Version.Version
	if i.Store.GraphRoot != "" {
		f.Graph = place(i.Store.GraphRoot)
	}
}

func (f *Facts) trial(ctx context.Context, h Host) {
	f.Trial = try(ctx)
	if f.Trial.Done || !f.Trial.Denied || h.UID == 0 || h.ConfErr != "" || h.Podman.Path == "" {
		return
	}
	if t := tryInPodman(ctx, f.podmanCommand(h, "unshare")); t.Step != "" || t.Done {
		t.InPodman = true
		f.Trial = t
	}
}

func (f *Facts) imageExists(ctx context.Context, h Host) {
	if h.UID == 0 || h.ConfErr != "" || h.Podman.Path == "" || h.Image.Tag == "" {
		return
	}
	f.Image.Exists = run(ctx, slow, f.podmanCommand(h, "image", "exists", h.Image.Tag))
}

func (f *Facts) pasta(ctx context.Context) {
	path := podman.Pasta()
	if path == "" {
		return
	}
	// Nothing of the environment: pasta needs none.
	ask := func(args ...string) Output {
		return run(ctx, quick, command{path: path, args: args, env: []string{"PATH=" + os.Getenv("PATH")}, terminal: true})
	}
	if f.Pasta = ask(append(append([]string{}, f.PastaOptions...), "--version")...); !f.Pasta.fine() && f.Pasta.TimedOut == 0 {
		f.PastaHelp = ask("--help")
	}
}

// files reads small files and asks the kernel of directories.
func (f *Facts) files(ctx context.Context, h Host) {
	f.SubUID, f.SubGID = subIDs(ctx, "/etc/subuid", f.Name), subIDs(ctx, "/etc/subgid", f.Name, "-g")
	f.NewUIDMap, f.NewGIDMap = program("newuidmap"), program("newgidmap")
	for _, name := range []string{"/run/.containerenv", "/.dockerenv", "/run/.toolboxenv"} {
		if _, err := os.Lstat(name); err == nil {
			f.Marks = append(f.Marks, name)
		}
	}
	for _, name := range Sysctls {
		if v, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/")); err == nil {
			f.Sysctl[name] = strings.TrimSpace(string(v))
		}
	}
	f.Seccomp = read("/proc/sys/kernel/seccomp/actions_avail")
	f.SELinux = read("/sys/fs/selinux/enforce")
	if p := place("/sys/fs/cgroup"); p.Err == "" {
		f.Cgroup = p.Type
		f.CgroupMixed = place("/sys/fs/cgroup/unified").Type == "cgroup2" && p.Type != "cgroup2"
	}
	if fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		f.TunErr = fmt.Sprintf("open /dev/net/tun: %v", err)
	} else {
		f.Tun = unix.Close(fd) == nil
	}
	f.Home, f.State, f.Cache = place(h.Home), place(h.State), place(h.Cache)
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// subIDs reads subuid(5) or subgid(5), and asks getsubids(1) where nsswitch.conf
// names another source.
func subIDs(ctx context.Context, path, name string, args ...string) SubIDs {
	var s SubIDs
	for line := range strings.Lines(read("/etc/nsswitch.conf")) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "subid:"); ok {
			s.Source = strings.Join(strings.Fields(list), " ")
		}
	}
	if s.Source != "" && s.Source != "files" {
		if p, err := exec.LookPath("getsubids"); err == nil && name != "" {
			s.Asked = run(ctx, quick, command{path: p, args: append(args, name), env: os.Environ()})
		}
		return s
	}
	b, err := os.ReadFile(path)
	s.File, s.Err = string(b), text(err)
	return s
}

func program(name string) Program {
	path, err := exec.LookPath(name)
	if err != nil {
		return Program{}
	}
	p := Program{Path: path}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		p.SetUID = st.Mode&unix.S_ISUID != 0 && st.Uid == 0
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 {
		p.Caps = true
	}
	var vfs unix.Statfs_t
	if unix.Statfs(path, &vfs) == nil {
		p.NoSuid = vfs.Flags&unix.ST_NOSUID != 0
	}
	return p
}

// place looks at a directory, or the nearest one above that exists: aisb makes
// what is missing.
func place(path string) Place {
	p := Place{Path: path}
	if !filepath.IsAbs(path) {
		p.Err = fmt.Sprintf("%q is not an absolute path", path)
		return p
	}
	var vfs unix.Statfs_t
	dir := path
	for {
		err := unix.Statfs(dir, &vfs)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			p.Err = fmt.Sprintf("%s: %v", dir, err)
			return p
		}
		dir = filepath.Dir(dir)
	}
	p.Type = fsType(uint32(vfs.Type))
	p.NoExec = vfs.Flags&unix.ST_NOEXEC != 0
	p.ReadOnly = vfs.Flags&unix.ST_RDONLY != 0
	p.Writable = unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	p.Free = vfs.Bavail * uint64(vfs.Bsize)
	return p
}
