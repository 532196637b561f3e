package main

import (
	"errors"
	"os"

	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// namedEnv are the variables that the user has named: those of flags win over
// those of files. writable is what a sandbox can write to.
func namedEnv(files, flags []string, writable []mounts.Mount) ([]environ.Var, error) {
	var vars []environ.Var
	for _, name := range files {
		more, err := readEnvFile(name, writable)
		if err != nil {
			return nil, envError(err)
		}
		vars = append(vars, more...)
	}
	more, err := environ.Parse(flags, os.LookupEnv)
	if err != nil {
		return nil, envError(err)
	}
	return append(vars, more...), nil
}

func envError(err error) error {
	if e, ok := errors.AsType[*environ.Error](err); ok {
		return &exitError{code: exitUsage, err: err, hint: e.Hint}
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e
	}
	return &exitError{code: exitUsage, err: err}
}
