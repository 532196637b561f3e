package mounts

import (
	"path/filepath"
	"slices"

	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// Area is where the source of a mount lies: enough to tell whether that of
// another run is the same, or one of the two in the other. It can be written
// down.
type Area struct {
	Path     string      `json:"path"`
	ReadOnly bool        `json:"ro,omitempty"`     // nothing can be written to it, FIFOs included
	Chain    [][2]uint64 `json:"chain"`            // device and inode of it and of every directory above
	Device   string      `json:"device,omitempty"` // of its file system
	Root     string      `json:"root,omitempty"`   // its path in that
}

// Areas are the areas of mounts, as they lie now.
func Areas(ms []Mount) ([]Area, error) {
	list, err := mountinfo.Read()
	if err != nil {
		return nil, err
	}
	areas := make([]Area, 0, len(ms))
	for _, m := range ms {
		a := Area{Path: m.Source, ReadOnly: m.ReadOnly && !m.Pipes}
		for _, id := range chain(m.Source) {
			a.Chain = append(a.Chain, [2]uint64{id.dev, id.ino})
		}
		if m.Ino != 0 {
			a.Chain[0] = [2]uint64{m.Dev, m.Ino}
		}
		a.Device, a.Root = locate(list, m.Source)
		areas = append(areas, a)
	}
	return areas, nil
}

// locate finds the file system that path is in, and path's place there.
func locate(list []mountinfo.Mount, path string) (device, root string) {
	longest := ""
	for _, m := range list {
		if !within(path, m.Target) || len(m.Target) < len(longest) {
			continue // of two at one place the later hides the earlier
		}
		rel, err := filepath.Rel(m.Target, path)
		if err != nil {
			continue
		}
		longest, device, root = m.Target, m.Device, filepath.Join(m.Root, rel)
	}
	return device, root
}

// Meets reports whether what is written to one of the two can be seen in the
// other. What both may only read joins nobody: connecting to a socket needs no
// writable mount, but making one does.
func (a Area) Meets(b Area) bool {
	return !(a.ReadOnly && b.ReadOnly) && (a.in(b) || b.in(a))
}

// in reports whether a is b or lies in it. By inode a bind mount or a renamed
// directory is still the same; by its place in the file system so is a directory
// that a bind mount shows without those above it.
func (a Area) in(b Area) bool {
	if len(b.Chain) > 0 && b.Chain[0][1] != 0 && slices.Contains(a.Chain, b.Chain[0]) {
		return true
	}
	return a.Device != "" && a.Device == b.Device && within(a.Root, b.Root)
}
