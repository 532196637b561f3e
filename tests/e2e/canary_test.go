//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"sync"
	"testing"
	"time"
)

// canary is a secret with a part that is found wherever it lies, however it is
// quoted.
type canary struct {
	value string
	mark  string
	begin time.Time
	of    string // the test that made it
}

// Every secret of these tests is a canary. All marks of a run begin with its stem, which
// was made when it began: it stands neither in this binary nor in what earlier runs
// have left, and one search for it finds all of them (TestSecretSweep).
var (
	canaryStem = "canary" + random(8)

	canariesMu sync.Mutex
	canaries   []canary
)

// Secrets of more than one test.
var (
	modelKey   = register("the models and git.test").mark // what their stand-ins ask for
	hostSecret = register("the host's environment").mark  // of no run
)

func newCanary(t *testing.T) canary { return register(t.Name()) }

func register(of string) canary {
	mark := canaryStem + random(8)
	c := canary{
		value: "line 1 " + mark + "\nline 2 'single' \"double\" `back` $HOME \\n = ü \x01\xff\n\n" + mark + "\n",
		mark:  mark, begin: time.Now().Add(-2 * time.Second), of: of,
	}
	canariesMu.Lock()
	defer canariesMu.Unlock()
	canaries = append(canaries, c)
	return c
}

// registered are the canaries so far.
func registered() []canary {
	canariesMu.Lock()
	defer canariesMu.Unlock()
	return slices.Clip(canaries)
}

func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// in reports whether text holds the canary's mark, plain or encoded.
func (c canary) in(text []byte) bool { return formOf(formsOf(c.mark), text) != "" }

// form is a way to write a mark down.
type form struct {
	name string
	text []byte
}

// formsOf are the ways in which programs do: as it is, in hexadecimal and in base64.
func formsOf(mark string) []form {
	forms := []form{{"plain", []byte(mark)}, {"hexadecimal", []byte(hex.EncodeToString([]byte(mark)))}}
	// Each of the three alignments, without the characters that hang on what is around.
	// Of letters and digits no character comes that the variants of base64 differ in.
	for shift := range 3 {
		enc := base64.StdEncoding.EncodeToString(append(make([]byte, shift), mark...))
		forms = append(forms, form{"base64", []byte(enc[4 : len(enc)-4])})
	}
	return forms
}

// formOf is the name of the first form that text holds, "" for none.
func formOf(forms []form, text []byte) string {
	for _, f := range forms {
		if bytes.Contains(text, f.text) {
			return f.name
		}
	}
	return ""
}
