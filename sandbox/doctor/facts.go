package doctor

import (
	"time"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// Facts are what was found out about a host.
type Facts struct {
	UID  int
	Name string // of the user, "" if unknown
	// Env holds the variables of Variables that are set.
	Env map[string]string

	SubUID, SubGID SubIDs
	NewUIDMap      Program
	NewGIDMap      Program
	RuntimeDir     string
	RuntimeDirErr  string // why there is none for aisb
	Core           string // limit for core files, see podman.CoreLimit
	CoreErr        string // why cores can't be kept from the host

	PodmanPath    string
	PodmanHidden  string // where podman is that aisb won't use: a sandbox can write there
	PodmanConfErr string // why there is no configuration for podman
	PodmanVersion Output
	PodmanInfo    Output
	Marks         []string // files that say that this is a container

	Trial  Trial
	Sysctl map[string]string // by dotted name, without those that aren't there
	// Seccomp is /proc/sys/kernel/seccomp/actions_avail.
	Seccomp     string
	SELinux     string // /sys/fs/selinux/enforce, "" without SELinux
	Cgroup      string // file system at /sys/fs/cgroup
	CgroupMixed bool   // it also lies at /sys/fs/cgroup/unified
	Limits      []string
	Tun         bool // /dev/net/tun was opened
	TunErr      string
	Landlock    int    // version of the kernel's interface, 0 without it
	LandlockErr string // why there is none
	Enclose     bool   // the gate can serve a listener of another network namespace
	EncloseErr  string

	Pasta        Output // pasta with aisb's options and --version
	PastaHelp    Output // pasta --help, if the other failed
	PastaOptions []string

	Upstream bool // run has a flag for a proxy behind the gate

	Home, State, Cache Place
	Graph              Place // podman's storage

	Cgo      bool // aisb was built with cgo
	Settings Settings
	Image    Image
	Git      Git
}

// Variables are those of the environment that are looked at.
var Variables = []string{
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY",
	"CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_HOST", "container", "TOOLBOX_PATH", "DISTROBOX_ENTER_PATH",
}

// Output is what a program said.
type Output struct {
	Path     string // "" when there is no such program
	Ran      bool   // it was started
	Text     string // standard output
	Errors   string // standard error
	Status   int
	Err      string        // why it did not start or end
	TimedOut time.Duration // not 0: it did not end in that time
}

// fine reports whether it ran and meant well.
func (o Output) fine() bool { return o.Ran && o.Status == 0 && o.Err == "" && o.TimedOut == 0 }

// SubIDs is where a user's subordinate IDs are written down.
type SubIDs struct {
	File string // subuid(5) or subgid(5)
	Err  string // why it could not be read
	// Source is what nsswitch.conf names for subid, "" for files.
	Source string
	Asked  Output // getsubids(1), where Source is not files
}

// Program is a program that raises its rights.
type Program struct {
	Path   string // "" when it isn't in PATH
	SetUID bool   // it belongs to root and has the bit
	Caps   bool   // it has file capabilities
	NoSuid bool   // its file system ignores both
}

// Trial is what became of the packet filter in namespaces of its own.
type Trial struct {
	StartErr string // why there was no child, or no namespaces
	Denied   bool   // by a rule of the system, not for want of something
	Step     string // that failed: apply, verify
	Err      string
	Lacks    bool // the kernel has no nf_tables, or not all of it
	Done     bool // installed and read back
	InPodman bool // in podman\'s user namespace: aisb may not make one itself
}

// Place is a directory, or the nearest one above that exists.
type Place struct {
	Path     string
	Err      string
	Type     string // of the file system
	NoExec   bool
	ReadOnly bool
	Writable bool
	Free     uint64 // bytes that this user may fill
}

// Settings are aisb's configuration files.
type Settings struct {
	Err, Hint string // why a run would not begin, and what to do
}

// Image is what the next run would start.
type Image struct {
	Harness string
	Tag     string // "" when aisb has built none
	Err     string
	Exists  Output // podman image exists
}

// Git is the work tree that the current directory belongs to.
type Git struct {
	Root    string // "" without one
	Err     string
	Changed int // tracked files that differ from the commit
	New     int // files that git neither tracks nor ignores
}

// Host is what Collect is told.
type Host struct {
	UID     int
	Getenv  func(string) string
	Podman  podman.Podman // usable when PodmanConfErr is empty and Path isn't
	Hidden  string
	ConfErr string

	EncloseErr  string // why no gate can serve a listener of another network namespace
	Landlock    int    // version of the kernel's interface, 0 without it
	LandlockErr string

	RuntimeDir, RuntimeDirErr string
	Core, CoreErr             string
	Home                      string
	State, Cache              string
	Dir                       string // the current directory, "" if there is none
	PastaOptions              []string
	Limits                    []string // lines of podman.Limits.Enforceable
	Settings                  Settings
	Image                     Image
	Cgo, Upstream             bool
}
