package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/config"
)

// blame makes the error of a flag whose value came from elsewhere one of that
// place. It goes by what the errors of flags are like: they begin with the flag, or
// quote the value.
func (s *settings) blame(err error) error {
	e, ok := errors.AsType[*exitError](err)
	if s == nil || !ok || e.code != exitUsage || e.err == nil {
		return err
	}
	v, text := s.culprit(e.err.Error())
	if v == nil || v.Origin.From == config.Flag {
		return err
	}
	code := e.code
	if v.Origin.InFile() {
		code = exitConfig
	}
	return &exitError{code: code, err: fmt.Errorf("%v: %s", v.Origin, text), hint: e.hint}
}

// culprit is the value that an error is about, and the error without the flag.
func (s *settings) culprit(text string) (*config.Value, string) {
	for i := range config.Keys {
		k := &config.Keys[i]
		rest, begins := strings.CutPrefix(text, "--"+k.FlagName())
		if !begins || rest == "" || !strings.Contains(" :,", rest[:1]) {
			continue
		}
		for _, v := range slices.Backward(s.Values(k.Name)) {
			// Of a list the one that is quoted, or that there is: what may be a secret
			// isn't quoted.
			if k.Kind != config.List || len(s.Values(k.Name)) == 1 || strings.Contains(text, strconv.Quote(v.Text)) {
				return &v, k.Name + rest
			}
		}
	}
	for i := range config.Keys {
		k := &config.Keys[i]
		for _, v := range slices.Backward(s.Values(k.Name)) {
			// The errors of the system don't quote paths.
			if strings.Contains(text, strconv.Quote(v.Text)) || k.Path == config.WholePath && strings.Contains(text, v.Text+":") {
				return &v, text
			}
		}
	}
	return nil, text
}
