// Package mounts decides what of the host a sandbox sees: the project, the git
// directory that belongs to it, and what the user adds; it refuses what would
// give the host away.
//
// Make follows the user's own path through symbolic links once, opens the
// result without following any, and keeps the descriptors until Plan.Close, so
// that device and inode numbers stay those of what was checked: a freed inode
// number could be given to a replacement.
package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// Project is where the project appears in the container.
const Project = "/project"

// Host is what Make must know of the host. HostFrom gathers it.
type Host struct {
	Home         string // the user's home directory
	ConfigHome   string // $XDG_CONFIG_HOME or its default
	DataHome     string // $XDG_DATA_HOME or its default
	CacheHome    string // $XDG_CACHE_HOME or its default
	StateHome    string // $XDG_STATE_HOME or its default
	RuntimeDir   string // $XDG_RUNTIME_DIR, "" when there is none
	StorageRoots []string
	Sockets      []string // sockets that the environment names: SSH_AUTH_SOCK, DOCKER_HOST, ...
	UID          int
}

// Options is what the user asks for.
type Options struct {
	Dir          string      // the project as the user named it
	Here         fs.FileInfo // what must lie at Dir, nil for anything: the directory that the user is in
	Sub          string      // -w: where in the project to start, "" for its top
	ReadOnly     bool        // --project-ro
	Extra        []string    // --mount HOST:CTR[:ro]
	AllowDir     bool        // --allow-unsafe-dir: lifts the refusal of a directory
	AllowSockets bool        // --allow-sockets: lifts the refusal of listening sockets
	NoGit        bool        // leave a git directory outside the project out
	Protect      []string    // --protect: make this read-only, too
	NoProtect    []string    // --no-protect: let the agent write to this

	// Scratch is a directory of this run that is made when it is needed, and
	// that the caller removes when the run ends. In a subdirectory of a
	// repository it becomes the top of the work tree. The agent can fill it, so
	// it must not lie on the small file system of the runtime directory. Without
	// one, git is read-only there.
	Scratch string
}

// Mount is one bind mount.
type Mount struct {
	Source   string // absolute, without symbolic links
	Target   string // absolute path in the container
	ReadOnly bool
	Pipes    bool   // there is a FIFO, or may be: a read-only mount stops nobody from writing to one
	Dev, Ino uint64 // of Source as it was opened
}

// Plan is what to mount. Close it when the run has ended.
type Plan struct {
	Mounts []Mount // parents before what lies below them
	// Nested are mount points of the host below a source. A recursive bind
	// mount brings them along (the kernel allows no other in a user namespace,
	// mount_namespaces(7) "Restrictions on mount namespaces"), so they are to
	// be expected, not to be asked for. Dev and Ino are 0.
	Nested []Mount
	// Protected make read-only what the host would later execute:
	// mounts over what others show, parents first.
	Protected []Mount
	// Watch finds what of that has changed when the run has ended; nil when nothing
	// can be written to.
	Watch *snapshot.Watch

	Projects []string // the targets at which the project appears: Project first
	Workdir  string   // in the container

	Env       []string    // NAME=VALUE that git needs to work there
	GitConfig [][2]string // git configuration of command scope: key, value
	// Prelude is put before the command when it isn't empty: it fills the rest
	// of the work tree from git's index, then executes its arguments.
	Prelude []string

	Warnings []string // what is weaker than usual
	Notes    []string // what the user should know

	files    []*os.File
	gitDir   string // a git directory outside of the project that is mounted, too
	workTree string // top of the work tree that the project lies in
}

// Close lets go of the opened sources.
func (p *Plan) Close() error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	p.files = nil
	return errors.Join(errs...)
}

// Refusal is the error of a request that is understood and not followed.
type Refusal struct {
	Reason string
	Hint   string
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(hint, format string, args ...any) *Refusal {
	return &Refusal{Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// Make plans the mounts of a run. Its error is a *Refusal when the request is
// refused. It changes nothing but Scratch.
func Make(h Host, o Options) (*Plan, error) {
	p := &Plan{Workdir: Project, Projects: []string{Project}}
	if err := p.make(h, o); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Plan) make(h Host, o Options) error {
	if !filepath.IsAbs(h.Home) {
		// Without it no secret of the user's could be told.
		return refuse("set HOME to your home directory", "HOME is %q, not an absolute path", h.Home)
	}
	places := h.places()
	project, err := p.openProject(places, h, o)
	if err != nil {
		return err
	}
	p.Mounts = append(p.Mounts, project.mount(Project, o.ReadOnly))
	if err := p.addGit(places, h, o, project); err != nil {
		return err
	}
	if err := p.addExtra(places, h, o); err != nil {
		return err
	}
	if err := p.startIn(project, o.Sub); err != nil {
		return err
	}
	sortMounts(p.Mounts)
	if err := p.checkTargets(); err != nil {
		return err
	}
	if err := p.addNested(); err != nil {
		return err
	}
	if err := p.checkText(); err != nil {
		return err
	}
	if err := p.checkSockets(h, o); err != nil {
		return err
	}
	return p.protectPivots(h, o, project)
}

// openProject resolves and opens the project and judges where it lies.
func (p *Plan) openProject(places []place, h Host, o Options) (*source, error) {
	s, err := p.open(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Here != nil && !s.is(o.Here) {
		return nil, refuse("change to the directory once more: another one has taken its place", "project %q is not the directory that you are in", o.Dir)
	}
	if !s.dir {
		return nil, refuse("name a directory", "project %q is not a directory", o.Dir)
	}
	if r := judge(places, h, s.path); r != nil && (r.hard || !o.AllowDir) {
		return nil, r.refusal(s.path)
	} else if r != nil {
		p.warnf("%s is mounted although %s (--allow-unsafe-dir)", s.path, r.why)
	}
	if s.uid != h.UID && !o.ReadOnly {
		p.notef("%s belongs to uid %d, not to you: the agent may not be able to write there", s.path, s.uid)
	}
	return s, nil
}

// startIn sets the working directory to sub of the project.
func (p *Plan) startIn(project *source, sub string) error {
	if sub == "" {
		return nil
	}
	rel := filepath.Clean(sub)
	if filepath.IsAbs(rel) {
		abs, err := filepath.EvalSymlinks(rel)
		if err != nil {
			return refuse("name an existing directory of the project", "working directory %q: %v", sub, errnoText(err))
		}
		if rel, err = filepath.Rel(project.path, abs); err != nil {
			return err
		}
	}
	hint := "name a directory inside of the project, relative to it"
	if !filepath.IsLocal(rel) {
		return refuse(hint, "working directory %q lies outside of the project", sub)
	}
	f, err := openBeneath(project.file, rel, followInside)
	if err != nil {
		return refuse(hint, "working directory %q: %v", sub, errnoText(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return refuse(hint, "working directory %q is not a directory", sub)
	}
	p.Workdir = filepath.Join(p.Workdir, rel)
	return nil
}

func (p *Plan) warnf(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

func (p *Plan) notef(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}
