package main

import (
	"errors"

	"github.com/aisb-dev/aisb/sandbox/newer"
)

// newerError gives the error of what a newer aisb has written its status and what to do:
// use that one, or what may stand after "or".
func newerError(err error, or string) error {
	if _, ok := errors.AsType[*newer.Error](err); !ok {
		return err
	}
	hint := "use that aisb: 'aisb version' tells which this one is"
	if or != "" {
		hint += "\nor " + or
	}
	return &exitError{code: exitPodman, err: err, hint: hint}
}

// buildAnew is what else can be done about the record of an image.
const buildAnew = "let this one build the image, as the run would: aisb image build"
