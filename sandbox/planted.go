package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf16"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// PlantedName is the file beside a run's log that lists all of Planted.
const PlantedName = "planted.json"

// Planted is what has come to be, or is another than at the start, of what the
// host would execute.
type Planted struct {
	snapshot.Outcome
	Moved []snapshot.Moved // with Spec.Quarantine
	Aside string           // where they are
	List  string           // the file with all; "" when there is nothing
}

// plantedRecord is a line of that file.
type plantedRecord struct {
	Path  string   `json:"path"`
	New   bool     `json:"new"`
	Why   string   `json:"why"`
	Keys  []string `json:"keys,omitempty"`  // of git's configuration that run something now
	Moved bool     `json:"moved,omitempty"` // to the quarantine
}

// lookForPlanted tells of what appears while the command runs. It asks the project's
// disk, which can hang.
func (s *Session) lookForPlanted() {
	for _, path := range s.spec.Watch.Appeared() {
		text := fmt.Sprintf("%q has appeared, which the host may execute: look at it before you do anything in the project", path)
		select {
		case s.appeared <- text:
		default: // the receipt has them all
		}
	}
}

// Appeared tells of what the host may execute and has come to be, while the
// command runs.
func (s *Session) Appeared() <-chan string { return s.appeared }

// planted looks at what is left, once nobody inside lives.
func (s *Session) planted() (Planted, error) {
	p := Planted{Outcome: s.spec.Watch.After(snapshot.AtEnd)}
	if len(p.Changes) == 0 {
		return p, nil
	}
	if s.spec.Quarantine {
		p.Aside = s.aside()
		p.Moved = s.spec.Watch.Quarantine(p.Aside, p.Changes)
	}
	p.List = filepath.Join(s.dirs.State, PlantedName)
	return p, p.keep()
}

// aside is a directory of the quarantine into which no earlier run of the same name has
// put something: nothing there is replaced.
func (s *Session) aside() string {
	first := filepath.Join(s.host.Paths.State, "quarantine", s.spec.Name)
	dir := first
	for n := 2; ; n++ {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		dir = fmt.Sprintf("%s.%d", first, n)
	}
}

// keep writes the list down.
func (p Planted) keep() error {
	moved := map[string]bool{}
	for _, m := range p.Moved {
		moved[m.Path] = m.Err == nil
	}
	var list []plantedRecord
	for _, c := range p.Changes {
		list = append(list, plantedRecord{Path: c.Path, New: c.New, Why: c.Rule.Why, Keys: c.Keys, Moved: moved[c.Path]})
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(p.List, append(ascii(text), '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the list of what the host may execute: %w", err)
	}
	return nil
}

// Kept reports whether a change was left where it is.
func (p Planted) Kept(c protect.Change) bool {
	for _, m := range p.Moved {
		if m.Path == c.Path && m.Err == nil {
			return false
		}
	}
	return true
}

// ascii escapes in JSON what is above ASCII: an agent chooses names, and who looks at
// the file with cat has a terminal that obeys some of these.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff: // RFC 8259, section 7
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
