package image

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/aisb-dev/aisb/gate/datafile"
	"github.com/aisb-dev/aisb/gate/preset"
)

// Harness is an AI coding harness as data: how it gets into the image, how it
// is started, and what it wants to reach.
type Harness struct {
	Name  string `json:"name"`
	Title string `json:"title"`

	// NPM is how the image gets it; nil installs nothing.
	NPM *NPM `json:"npm"`

	// Command starts it; arguments of the user are added.
	Command []string `json:"command"`
	// Unprompted starts it without its own permission prompts and its own inner
	// sandbox, since aisb is the sandbox. Empty: Command has none of either.
	Unprompted []string `json:"unprompted"`
	// UnpromptedEnv does the same where it takes variables.
	UnpromptedEnv map[string]string `json:"unprompted_env"`
	// Prompted is what to know when these are not used, "" if there is nothing.
	Prompted string `json:"prompted"`

	// Env are switches that keep it quiet: no telemetry, no update check. They
	// give way to what the user passes.
	Env map[string]string `json:"env"`
	// Keys are credentials that it reads from the environment.
	Keys []Key `json:"keys"`
	// Hosts are its preset: what it reaches whatever its key is. Those of a key
	// are in the preset that the key names.
	Hosts preset.Hosts `json:"hosts"`

	// Told is how it comes to read what the agent is told.
	Told Told `json:"told"`

	// Sessions are directories below the home that hold history, kept apart
	// for each project.
	Sessions []string `json:"sessions"`
	// Credentials are files below the home in which it keeps what lets it in.
	Credentials []string `json:"credentials"`
}

// Told is how a harness reads AgentsFile among its instructions of the system,
// beside the user's own and not in their place.
type Told struct {
	// At are paths in the container where the file is put too.
	At []string `json:"at"`
	// Files are other files of a run: TextMark in them stands for the file's text
	// as a JSON string.
	Files map[string]string `json:"files"`
	// Image are files that the image gets, for what must be root's.
	Image map[string]json.RawMessage `json:"image"`
	Env   map[string]string          `json:"env"`
}

// AgentsFile is where each container has what the agent is told.
const AgentsFile = "/etc/aisb/AGENTS.md"

// TextMark see Told.Files.
const TextMark = "${text}"

// NPM is an installation by npm.
type NPM struct {
	Package string   `json:"package"`
	Version string   `json:"version"` // range, as npm reads it
	Node    string   `json:"node"`    // major version of the Node that runs it
	Bins    []string `json:"bins"`    // commands that go to the PATH
	// Scripts are the packages whose install scripts must run. All others are
	// not run: most packages don't need theirs, and one that is not run can't
	// harm.
	Scripts []string `json:"scripts"`
}

// Key is a variable that holds a credential, and the service that it is for.
type Key struct {
	Env    string `json:"env"`
	Preset string `json:"preset"` // whose core hosts the key is good for
	Reason string `json:"reason"`
}

// Preset is the harness as a preset of hosts.
func (h Harness) Preset() preset.Preset {
	return preset.Preset{Name: h.Name, Kind: preset.Harness, Title: h.Title, Hosts: h.Hosts}
}

// ErrUnknownHarness reports a name that no data file has.
var ErrUnknownHarness = errors.New("unknown harness")

//go:embed harness/*.json
var harnessFiles embed.FS

func harnesses() datafile.Dir { return datafile.Dir{FS: harnessFiles, Name: "harness"} }

// HarnessNames are the names of all harnesses, sorted.
func HarnessNames() []string { return harnesses().Names() }

// FindHarness reads the harness called name, or returns ErrUnknownHarness.
func FindHarness(name string) (Harness, error) {
	data, ok := harnesses().Read(name)
	if !ok {
		return Harness{}, fmt.Errorf("%w %q", ErrUnknownHarness, name)
	}
	return ParseHarness(data)
}

// ParseHarness reads a data file. Unknown keys and missing parts are errors.
func ParseHarness(data []byte) (Harness, error) {
	var h Harness
	if err := datafile.Parse(data, &h); err != nil {
		return Harness{}, fmt.Errorf("parse harness: %w", err)
	}
	if err := h.check(); err != nil {
		return Harness{}, fmt.Errorf("parse harness %q: %w", h.Name, err)
	}
	return h, nil
}

func (h Harness) check() error {
	if !reName().MatchString(h.Name) || len(h.Command) == 0 {
		return errors.New("name and command must be set")
	}
	for _, k := range h.Keys {
		if k.Env == "" || k.Preset == "" || k.Reason == "" {
			return fmt.Errorf("key %q: env, preset and reason must be set", k.Env)
		}
	}
	if err := errors.Join(h.Hosts.Check(), h.Told.check()); err != nil {
		return err
	}
	for _, name := range slices.Concat(h.Sessions, h.Credentials) {
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("%q is no path below the home", name)
		}
	}
	if h.NPM == nil {
		return nil
	}
	return h.NPM.check()
}

// check keeps paths to what a Containerfile and a mount take as they stand.
func (t Told) check() error {
	for _, p := range slices.Concat(t.At, slices.Collect(maps.Keys(t.Files)), slices.Collect(maps.Keys(t.Image))) {
		if !rePath().MatchString(p) || path.Clean(p) != p {
			return fmt.Errorf("path %q is not a plain absolute path", p)
		}
	}
	return nil
}

// check keeps what goes into the Containerfile's shell lines to characters
// that mean nothing there.
func (n *NPM) check() error {
	for _, p := range append([]string{n.Package}, n.Scripts...) {
		if !rePackage().MatchString(p) {
			return fmt.Errorf("npm package %q is not a package's name", p)
		}
	}
	if !reVersion().MatchString(n.Version) {
		return fmt.Errorf("version %q is not a range of versions", n.Version)
	}
	if !reNode().MatchString(n.Node) {
		return fmt.Errorf("node %q is not a major version", n.Node)
	}
	if len(n.Bins) == 0 {
		return errors.New("bins must be set")
	}
	for _, b := range n.Bins {
		if !reName().MatchString(b) {
			return fmt.Errorf("bin %q is not the name of a command", b)
		}
	}
	return nil
}
