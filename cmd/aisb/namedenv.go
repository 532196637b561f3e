package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/aisb-dev/aisb/sandbox/environ"
)

// namedEnv are the variables that the user has named: those of flags win over
// those of files.
func namedEnv(files, flags []string) ([]environ.Var, error) {
	var vars []environ.Var
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("read --env-file: %w", err),
				hint: "name a file that you can read, with one NAME=VALUE a line"}
		}
		more, err := environ.ParseFile(name, data, os.LookupEnv)
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
	return &exitError{code: exitUsage, err: err}
}
