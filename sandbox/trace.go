package sandbox

import (
	"time"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Part is how long a part of a run took. The gate's start runs beside podman's;
// all others follow one another.
type Part struct {
	Name string
	Took time.Duration
}

// Parts of a run outside the container, in their order. Those inside, between
// PartPasta and PartCommand, are the stages of package handshake, by their names.
const (
	PartPrepare = "prepare" // listeners, directories, copy of the binary
	PartGate    = "gate"    // from its start to its ready
	PartPodman  = "podman"  // from its start to the first word of pid 1
	PartPasta   = "pasta"   // found, checked and named to the gate
	PartCommand = "command" // the user's
	PartCleanUp = "cleanup" // podman's, of the container
	PartScan    = "scan"    // for what the host would execute
	PartReport  = "report"  // the gate's end
)

// pointKill is no part: it is where the tests hold up a kill.
const pointKill = "kill"

// tracer tells the parts of a run as they end.
type tracer struct {
	tell  func(Part) // may be nil
	since time.Time
	stage int64 // µs after the go of the stage before
}

// part ends a part that began with the end of the one before.
func (t *tracer) part(name string) {
	now := time.Now()
	t.took(name, now.Sub(t.since))
	t.since = now
	pause(name)
}

// inside ends a part by the clock of the entrypoint.
func (t *tracer) inside(s handshake.Stage) {
	t.took(string(s.Stage), time.Duration(s.Micros-t.stage)*time.Microsecond)
	t.stage = s.Micros
}

func (t *tracer) took(name string, d time.Duration) {
	if t.tell != nil {
		t.tell(Part{Name: name, Took: d})
	}
}
