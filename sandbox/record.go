package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// FenceName is the file beside a run's log that tells how its fence was proved.
const FenceName = "fence.json"

// fenceRecord is what the file holds.
type fenceRecord struct {
	TS      string        `json:"ts"` // RFC 3339, UTC
	Run     string        `json:"run"`
	Net     NetMode       `json:"net"`
	Backend Backend       `json:"backend,omitempty"`
	Joined  []string      `json:"joined,omitempty"` // by --share, with these runs
	Probes  []probeRecord `json:"probes"`
}

type probeRecord struct {
	Name string `json:"name"`
	Saw  string `json:"saw"`
	OK   bool   `json:"ok"`
}

// keepProof writes down how the fence was proved, for who asks after the run.
func (s *Session) keepProof(probes []handshake.ProbeResult) error {
	r := fenceRecord{TS: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Run: s.spec.Name, Net: s.spec.Net, Joined: s.Joined()}
	if s.spec.Net == NetAllow {
		r.Backend = s.spec.Backend
	}
	for _, p := range probes {
		r.Probes = append(r.Probes, probeRecord(p))
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dirs.State, FenceName), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the proof of the fence: %w", err)
	}
	return nil
}
