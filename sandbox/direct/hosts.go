package direct

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
)

// Line is a line of a hosts file (hosts(5)).
type Line struct {
	Addr netip.Addr
	Name string
}

func (l Line) text() string { return l.Addr.String() + "\t" + l.Name }

// HostsFile is a hosts file that others read while it changes. It can't be replaced,
// for the sandbox has this very inode mounted, and a reader may come at any moment. So
// a line that is there never moves: new ones are appended by one write, which readers
// see no part of, as a file's size grows after its bytes are there; and one byte, its
// first, makes a line a comment or a line again. A line that is turned off stays for
// one more Set, or a reader who is past an older line that comes back would miss both.
// What was turned off before makes room for others, so the file stays about as long as
// what it has to say at the most.
type HostsFile struct {
	file  *os.File
	size  int64
	lines []*place
}

// place is where a line stands.
type place struct {
	Line
	at    int64
	room  int // for the line, without its end
	on    bool
	stale bool // to be turned off
}

// CreateHosts makes a file that begins with head, lines that stay. It must not exist.
func CreateHosts(path, head string) (*HostsFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make hosts file: %w", err)
	}
	h := &HostsFile{file: f}
	err = f.Chmod(0o644) // whatever the umask: the sandbox's root is another user
	if err = errors.Join(err, h.append(head)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

// Set makes these the lines that count. Those that don't any more go with the next Set,
// so that a name which keeps an address is there at every moment.
func (h *HostsFile) Set(lines []Line) error {
	for _, l := range lines {
		i := slices.IndexFunc(h.lines, func(p *place) bool { return p.Line == l })
		if i < 0 {
			i = slices.IndexFunc(h.lines, func(p *place) bool { return !p.on && p.room >= len(l.text()) && !slices.Contains(lines, p.Line) })
		}
		if i < 0 {
			p := &place{Line: l, at: h.size, room: len(l.text()), on: true}
			if err := h.append(l.text() + "\n"); err != nil {
				return err
			}
			h.lines = append(h.lines, p)
			continue
		}
		if err := h.enter(h.lines[i], l); err != nil {
			return err
		}
	}
	for _, p := range h.lines {
		if slices.Contains(lines, p.Line) {
			continue
		}
		if !p.stale {
			p.stale = true
			continue
		}
		if err := h.turn(p, false); err != nil {
			return err
		}
	}
	return nil
}

func (h *HostsFile) append(text string) error {
	if _, err := h.file.WriteAt([]byte(text), h.size); err != nil {
		return fmt.Errorf("write hosts file: %w", err)
	}
	h.size += int64(len(text))
	return nil
}

// enter lets a line count in a place that has it, or that is turned off. There it is
// written behind the mark of the comment first.
func (h *HostsFile) enter(p *place, l Line) error {
	if p.Line != l {
		text := fmt.Sprintf("%-*s", p.room, l.text())
		if _, err := h.file.WriteAt([]byte(text[1:]), p.at+1); err != nil {
			return fmt.Errorf("write hosts file: %w", err)
		}
		p.Line = l
	}
	p.stale = false
	return h.turn(p, true)
}

// turn makes a line count or not.
func (h *HostsFile) turn(p *place, on bool) error {
	if p.on == on {
		return nil
	}
	first := byte('#')
	if on {
		first = p.text()[0]
	}
	if _, err := h.file.WriteAt([]byte{first}, p.at); err != nil {
		return fmt.Errorf("write hosts file: %w", err)
	}
	p.on = on
	return nil
}

// Close closes the file, which stays.
func (h *HostsFile) Close() error { return h.file.Close() }
