package gate

import (
	"os"
	"runtime/debug"
)

// CollectLess is for the main function of a gate's process. What a gate keeps is
// small and what it makes in passing is much, so Go's default has it collect
// several times a second under load, a twentieth of its work with plain requests.
// The heap may grow to four times what is in use instead of twice; GOGC of the
// environment wins.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}
