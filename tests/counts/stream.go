package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// relay shows of a stream what "go test" without -json would: all of it with
// verbose, else the lines of packages and what failing tests have written.
type relay struct {
	out     io.Writer
	verbose bool
	held    map[string][]event // of each test and its parts, until it ends
	ended   map[string]string  // how the parts of those ended
}

func newRelay(out io.Writer, verbose bool) *relay {
	return &relay{out: out, verbose: verbose, held: map[string][]event{}, ended: map[string]string{}}
}

// whole is the key of a test with all its parts, or of the package's own lines.
func (e event) whole() string {
	name, _, _ := strings.Cut(e.Test, "/")
	return e.Package + " " + name
}

func (r *relay) event(e event) {
	switch {
	case e.Action == "build-output" || e.Action == "output" && r.verbose:
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output":
		r.held[e.whole()] = append(r.held[e.whole()], e)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
	case strings.Contains(e.Test, "/"):
		r.ended[e.Package+" "+e.Test] = e.Action
	case e.Test != "":
		r.show(e.whole(), e.Action == "fail")
	default:
		// A test that did not end says what the package died of.
		for key := range r.held {
			if strings.HasPrefix(key, e.Package+" ") && key != e.whole() {
				r.show(key, e.Action == "fail")
			}
		}
		r.show(e.whole(), true)
	}
}

// show writes what is held, but the lines of parts that passed and those that only
// tell of progress, and forgets it.
func (r *relay) show(key string, worth bool) {
	for _, e := range r.held[key] {
		passed := r.ended[e.Package+" "+e.Test] == "pass"
		if worth && !passed && !strings.HasPrefix(e.Output, "=== ") && e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			fmt.Fprint(r.out, e.Output)
		}
	}
	delete(r.held, key)
}

// read takes a whole stream in. Lines that are no events are shown as they are.
func read(in io.Reader, r *relay, t *tally) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.event(e)
				t.event(e)
			} else {
				fmt.Fprintln(r.out, strings.TrimSuffix(line, "\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what the tests say: %w", err)
		}
	}
}
