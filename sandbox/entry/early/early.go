// Package early lets the entrypoint begin before the other roles' packages are set up.
//
// Packages are initialized in the order of their import paths, each as soon as all
// that it imports are (The Go Programming Language Specification, "Program
// initialization"). This one imports the entrypoint alone, so its turn comes before
// that of net/http, goproxy, cobra and what else pid 1 and its child never use
// (docs/adr/0137). In another order the entrypoint would come up later, and do the same.
package early

import (
	"os"
	"path/filepath"

	"github.com/aisb-dev/aisb/sandbox/entry"
)

func init() {
	if filepath.Base(os.Args[0]) != entry.Name {
		return
	}
	// In a goroutine of its own: the one that initializes is kept on its thread
	// (runtime.LockOSThread), and each switch to it would cost.
	go func() { os.Exit(entry.Main(os.Args[1:])) }() //nolint:forbidigo // there is no main to return to
	select {}
}
