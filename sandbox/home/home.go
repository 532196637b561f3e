// Package home is what aisb knows of the volumes that are kept as an agent's home:
// which of podman's volumes are homes, what in one of them matters, and what a run
// has changed in it. An agent has written what lies in a home: no link is followed
// there, nothing but a regular file is opened, and every list has an end.
package home

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Label marks the volumes that aisb has made as homes. A volume without it is
// somebody else's, whatever its name: it can be used as a home, and is never listed
// or removed.
const Label = "dev.aisb.home"

// ErrName reports a name that no volume can have.
type ErrName struct{ Name string }

func (e *ErrName) Error() string {
	if strings.ContainsAny(e.Name, "/:,\"") {
		return fmt.Sprintf("the home volume %q is a name, not a path", e.Name)
	}
	return fmt.Sprintf("the home volume %q is no name: letters, digits, and after the first of them _ . -", e.Name)
}

// maxName leaves room for what the file systems below put around a name.
const maxName = 200

// CheckName says whether a volume can have the name (podman's NameRegex in
// libpod/define), which is a file name too.
func CheckName(name string) error {
	if len(name) > maxName || !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`).MatchString(name) {
		return &ErrName{name}
	}
	return nil
}

// CreateArgs makes a home, or leaves the volume that is there as it is.
func CreateArgs(name string) []string {
	return []string{"volume", "create", "--ignore", "--label", Label + "=1", name}
}

// InspectArgs asks for one volume, ListArgs for all homes; ParseVolumes reads both.
func InspectArgs(name string) []string { return []string{"volume", "inspect", name} }

// ListArgs see InspectArgs.
func ListArgs() []string {
	return []string{"volume", "ls", "--filter", "label=" + Label, "--format", "json"}
}

// RemoveArgs removes a volume that no container uses.
func RemoveArgs(name string) []string { return []string{"volume", "rm", name} }

// Volume is one of podman's.
type Volume struct {
	Name       string
	Mountpoint string
	Created    time.Time
	Home       bool // made as one, by aisb
}

// ParseVolumes reads podman's answer to InspectArgs and ListArgs, by name.
func ParseVolumes(out []byte) ([]Volume, error) {
	var raw []struct {
		Name, Mountpoint string
		CreatedAt        time.Time
		Labels           map[string]string
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("parse podman's list of volumes: %w", err)
	}
	var list []Volume
	for _, r := range raw {
		if CheckName(r.Name) != nil || !filepath.IsAbs(r.Mountpoint) {
			return nil, fmt.Errorf("podman has a volume %q at %q", r.Name, r.Mountpoint)
		}
		_, ours := r.Labels[Label]
		list = append(list, Volume{Name: r.Name, Mountpoint: r.Mountpoint, Created: r.CreatedAt.UTC(), Home: ours})
	}
	slices.SortFunc(list, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
