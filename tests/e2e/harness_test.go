//go:build e2e

package e2e

import "github.com/aisb-dev/aisb/tests/fakes"

// The model's part: it asks for an edit of this file, then says that it's done.
const (
	modelKey     = "key-of-the-stand-in"
	modelFile    = "greeting.txt"
	modelContent = "hello from the model\n"
)

var modelScript = fakes.EditScript("/project/"+modelFile, modelContent, "The file is written.")
