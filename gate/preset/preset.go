// Package preset holds what services need to be reached, as data files: rules by
// what they are for, each with a reason. Harnesses and the package tools of an
// image make presets of the same form.
package preset

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/gate/datafile"
	"github.com/aisb-dev/aisb/gate/policy"
)

// Host is one rule and why it is there.
type Host struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// Hosts are rules for the gate, by what they are for.
type Hosts struct {
	Core      []Host `json:"core,omitempty"`      // it doesn't work without
	Telemetry []Host `json:"telemetry,omitempty"` // it reports to
	Update    []Host `json:"update,omitempty"`    // it looks for newer things
}

// Group is one of the lists in Hosts.
type Group string

// The groups. A preset's name alone means Core.
const (
	Core      Group = "core"
	Telemetry Group = "telemetry"
	Update    Group = "update"
)

// Groups are all groups, in the order in which they are shown.
func Groups() []Group { return []Group{Core, Telemetry, Update} }

// Of are the hosts of a group.
func (h Hosts) Of(g Group) []Host {
	switch g {
	case Core:
		return h.Core
	case Telemetry:
		return h.Telemetry
	case Update:
		return h.Update
	}
	return nil
}

// Check reports a host without a rule or without a reason.
func (h Hosts) Check() error {
	for _, host := range slices.Concat(h.Core, h.Telemetry, h.Update) {
		if host.Rule == "" || host.Reason == "" {
			return fmt.Errorf("host %q: rule and reason must be set", host.Rule)
		}
	}
	return nil
}

// Kind is where a preset comes from.
type Kind string

// The kinds.
const (
	Service Kind = "service" // a data file of this package
	Harness Kind = "harness" // the data file of a harness
	Package Kind = "package" // read off an image
)

// Preset is a named set of hosts.
type Preset struct {
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`
	Title string `json:"title"`
	Hosts
}

// Lines are the rules of a group, with the preset as their origin. by says what
// asked for it, where nobody wrote its name.
func (p Preset) Lines(g Group, by string) []policy.Line {
	origin := "preset " + Ref{Name: p.Name, Group: g}.String()
	if by != "" {
		origin += " (" + by + ")"
	}
	var lines []policy.Line
	for _, h := range p.Of(g) {
		lines = append(lines, policy.Line{Text: h.Rule, Origin: origin})
	}
	return lines
}

// Ref names a group of a preset.
type Ref struct {
	Name  string
	Group Group
}

// ErrUnknownGroup reports what follows the colon in a reference.
var ErrUnknownGroup = errors.New("unknown group")

// ParseRef reads NAME, which is its core, or NAME:GROUP.
func ParseRef(text string) (Ref, error) {
	name, group, given := strings.Cut(text, ":")
	r := Ref{Name: name, Group: Core}
	if given {
		r.Group = Group(group)
	}
	if name == "" {
		return Ref{}, errors.New("a preset without a name")
	}
	if !slices.Contains(Groups(), r.Group) {
		return Ref{}, fmt.Errorf("preset %q: %w %q", name, ErrUnknownGroup, group)
	}
	return r, nil
}

// String is the reference as ParseRef reads it, as short as it can be.
func (r Ref) String() string {
	if r.Group == Core {
		return r.Name
	}
	return r.Name + ":" + string(r.Group)
}

// ErrUnknown reports a name that no data file has.
var ErrUnknown = errors.New("unknown preset")

//go:embed services/*.json
var files embed.FS

func services() datafile.Dir { return datafile.Dir{FS: files, Name: "services"} }

// Services are the names of all services, sorted.
func Services() []string { return services().Names() }

// FindService reads the service called name, or returns ErrUnknown.
func FindService(name string) (Preset, error) {
	data, ok := services().Read(name)
	if !ok {
		return Preset{}, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	return parse(name, data)
}

// parse reads a data file. Unknown keys and missing parts are errors.
func parse(name string, data []byte) (Preset, error) {
	var file struct {
		Title string `json:"title"`
		Hosts
	}
	if err := datafile.Parse(data, &file); err != nil {
		return Preset{}, fmt.Errorf("parse preset %q: %w", name, err)
	}
	p := Preset{Name: name, Kind: Service, Title: file.Title, Hosts: file.Hosts}
	if p.Title == "" || len(p.Core) == 0 {
		return Preset{}, fmt.Errorf("parse preset %q: title and core must be set", name)
	}
	if err := p.Check(); err != nil {
		return Preset{}, fmt.Errorf("parse preset %q: %w", name, err)
	}
	return p, nil
}
