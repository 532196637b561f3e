package main

import (
	"errors"
	"os"

	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// namedEnv are the variables that the user has named: those of flags win over
// those of files. writable is what a sandbox can write to; theirs are the names among
// them whose values stand in such a file.
func namedEnv(files, flags []string, writable []mounts.Mount) (vars []environ.Var, theirs map[string]bool, err error) {
	theirs = map[string]bool{}
	for _, name := range files {
		more, err := readEnvFile(name, writable)
		if err != nil {
			return nil, nil, envError(err)
		}
		inReach := agentWrites(name, writable)
		for _, v := range more {
			theirs[v.Name] = inReach // the last of a name counts
		}
		vars = append(vars, more...)
	}
	more, err := environ.Parse(flags, os.LookupEnv)
	if err != nil {
		return nil, nil, envError(err)
	}
	for _, v := range more {
		theirs[v.Name] = false
	}
	return append(vars, more...), theirs, nil
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
