package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
)

// Name is the argv[0] under which the binary tries the packet filter.
const Name = "aisb-doctor"

// heard is what the child says, a line of JSON.
type heard struct {
	Step  string `json:"step"` // the last one
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
}

const stepDone = "done"

// everyRule has each form of rule that a sandbox's fence can have, so that a
// kernel without one of the expressions is found out.
func everyRule() netpolicy.Spec {
	at := netip.MustParseAddrPort
	return netpolicy.Spec{
		Gates:   []netip.AddrPort{at("169.254.1.3:3128"), at("[fd77::1]:3128")},
		Publish: []uint16{8080},
		Probes: []netpolicy.Probe{
			{Name: "tcp", Proto: netpolicy.TCP, To: at("203.0.113.1:443")},
			{Name: "tcp6", Proto: netpolicy.TCP, To: at("[2001:db8::1]:443")},
			{Name: "udp", Proto: netpolicy.UDP, To: at("203.0.113.1:53")},
		},
	}
}

// inPodman is the argument that lets the child make the network namespace itself,
// in the user namespace in which podman has started it.
const inPodman = "in-podman"

// Main is the child: it is root in a user and a network namespace of its own. It
// touches the packet filter only there, and only if it is sure to be there.
func Main(args []string) int {
	said := heard{Step: stepDone}
	if len(args) > 0 && args[0] == inPodman {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.Env, cmd.Stdout, cmd.Stderr = []string{Name}, []string{}, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if step, err := inNamespaces(); err != nil {
		said = heard{Step: step, Error: err.Error()}
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			said.Errno = int(errno)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		return 1
	}
	return 0
}

// inNamespaces installs a fence and reads it back. It returns the step that
// failed.
func inNamespaces() (string, error) {
	const where = "look where it is"
	// Whoever calls the role by hand, root perhaps, must not lose the host's
	// own packet filter: in a new network namespace no link is up.
	links, err := net.Interfaces()
	if err != nil {
		return where, err
	}
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 {
			return where, errors.New("this is no new network namespace")
		}
	}
	uids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return where, err
	}
	// The first user namespace maps all there are (user_namespaces(7)).
	if f := strings.Fields(string(uids)); len(f) < 3 || f[0] != "0" || f[2] == "4294967295" {
		return where, errors.New("this is no user namespace of its own")
	}
	rs, err := netpolicy.Render(everyRule())
	if err != nil {
		return "render", err
	}
	if err := nft.Apply(rs); err != nil {
		return "apply", err
	}
	if err := nft.Verify(rs); err != nil {
		return "verify", err
	}
	return "", nil
}

// try runs the child.
func try(ctx context.Context) Trial {
	o := run(ctx, quick, command{
		path: "/proc/self/exe", argv: []string{Name}, env: []string{},
		attr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	})
	return judgeTrial(o)
}

// tryInPodman tries it where podman's containers are: AppArmor may leave
// namespaces to programs with a profile, and podman's children have podman's.
// The binary finds its role by its name, so it gets that by a link.
func tryInPodman(ctx context.Context, unshare command) Trial {
	dir, err := os.MkdirTemp("", "aisb-doctor-")
	if err != nil {
		return Trial{StartErr: err.Error()}
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return Trial{StartErr: err.Error()}
	}
	link := filepath.Join(dir, Name)
	if err := os.Symlink(self, link); err != nil {
		return Trial{StartErr: err.Error()}
	}
	unshare.args = append(unshare.args, link, inPodman)
	return judgeTrial(run(ctx, slow, unshare))
}

// judgeTrial reads what became of the child.
func judgeTrial(o Output) Trial {
	switch {
	case o.TimedOut > 0:
		return Trial{StartErr: fmt.Sprintf("the trial did not end within %v", o.TimedOut)}
	case !o.Ran:
		// fork/exec /proc/self/exe: operation not permitted
		why := o.Err[strings.LastIndex(o.Err, ": ")+1:]
		return Trial{StartErr: "can't make one:" + why, Denied: true}
	case !o.fine():
		return Trial{StartErr: fmt.Sprintf("the trial ended with status %d %s: %s", o.Status, o.Err, firstLine(o.Errors))}
	}
	var said heard
	if err := json.Unmarshal([]byte(o.Text), &said); err != nil || said.Step == "" {
		return Trial{StartErr: "the trial said nothing that can be read"}
	}
	switch said.Step {
	case stepDone:
		return Trial{Done: true}
	case "apply", "verify":
		errno := syscall.Errno(said.Errno)
		return Trial{
			Step: said.Step, Err: said.Error,
			Denied: errno == syscall.EPERM || errno == syscall.EACCES,
			// What nfnetlink says without the subsystem, the family or an
			// expression (nf_tables_api.c: -EOPNOTSUPP, -EAFNOSUPPORT, -ENOENT).
			Lacks: said.Step == "apply" && (errno == syscall.EOPNOTSUPP || errno == syscall.EAFNOSUPPORT ||
				errno == syscall.ENOENT || errno == syscall.EPROTONOSUPPORT),
		}
	}
	return Trial{StartErr: said.Step + ": " + said.Error}
}
