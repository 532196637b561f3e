package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/aisb-dev/aisb/sandbox"
)

// TestFail: an error's status and hint are those of what it wraps, however deep.
func TestFail(t *testing.T) {
	failure := &sandbox.Failure{Status: 125, Err: errors.New("no"), Hint: "do"}
	for _, row := range []struct {
		err  error
		code int
		want string
	}{
		{errors.New("no"), 1, "aisb: error: no\n"},
		{fmt.Errorf("look: %w", failure), 125, "aisb: error: look: no\naisb: hint: do\n"},
		{fmt.Errorf("look: %w", &exitError{code: 3, err: errors.New("no"), hint: "a\nb"}), 3, "aisb: error: no\naisb: hint: a\naisb: hint: b\n"},
		{&exitError{code: 2, err: errors.Join(errors.New("a"), errors.New("b"))}, 2, "aisb: error: a\naisb: error: b\n"},
		{&exitError{code: 7}, 7, ""},
	} {
		var out bytes.Buffer
		if code := (&ui{Err: &out}).fail(row.err); code != row.code || out.String() != row.want {
			t.Errorf("%v: %d\n%s, want %d\n%s", row.err, code, out.String(), row.code, row.want)
		}
	}
}
