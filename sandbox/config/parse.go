package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Source is a file to parse, and what its relative paths and ~ stand for.
type Source struct {
	From From   // UserFile or ProjectFile
	Name string // as messages call it
	Dir  string // absolute, what relative paths start from
	Home string // the user's home directory
	Data []byte
}

// Error is what is wrong with a line of a file.
type Error struct {
	Origin  Origin
	Problem string
	Hint    string // what to do about it, may be empty
}

// Error implements error: where the line is and what is wrong with it. It holds no
// value that may be a secret.
func (e *Error) Error() string { return e.Origin.String() + ": " + e.Problem }

// Parse reads a file, strictly: a key that isn't known is an error, and a value of
// another type. The error joins one *Error for each line that is wrong; of a file
// with an error nothing counts.
func Parse(src Source) ([]Value, error) {
	src.Data = bytes.TrimPrefix(src.Data, []byte("\ufeff")) // editors on Windows
	src.Data = slices.Clip(src.Data)
	// What the text means as a whole, keys given twice among it, is the decoder's to
	// say. Its strict mode would tell unknown keys, but not where a value stands.
	var all map[string]any
	if err := toml.Unmarshal(src.Data, &all); err != nil {
		return nil, src.syntax(err)
	}
	r := reader{Source: src}
	r.tree.Reset(src.Data)
	for r.tree.NextExpression() {
		r.expression(r.tree.Expression())
	}
	if err := r.tree.Error(); err != nil {
		return nil, src.syntax(err)
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.values, nil
}

// syntax is the error of a text that is no TOML.
func (s Source) syntax(err error) error {
	e := &Error{Origin: Origin{From: s.From, Name: s.Name, Line: 1}, Problem: err.Error()}
	column := 1
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.Origin.Line, column = at.Position()
	}
	e.Problem, e.Hint = plain(strings.TrimPrefix(e.Problem, "toml: "), breaks(s.Data, e.Origin.Line, column))
	return e
}

// reader goes through the lines of a file.
type reader struct {
	Source
	tree   unstable.Parser
	table  bool // the lines stand under a header, which was an error
	values []Value
	errs   []error
}

func (r *reader) at(n *unstable.Node) Origin {
	return Origin{From: r.From, Name: r.Name, Line: 1 + bytes.Count(r.Data[:n.Raw.Offset], []byte("\n"))}
}

func (r *reader) wrong(at Origin, hint, format string, args ...any) {
	r.errs = append(r.errs, &Error{Origin: at, Problem: fmt.Sprintf(format, args...), Hint: hint})
}

// mostShown is what is shown of a name that isn't known: an agent can write the file.
const mostShown = 80

func (r *reader) expression(n *unstable.Node) {
	if n.Kind != unstable.KeyValue && n.Kind != unstable.Table && n.Kind != unstable.ArrayTable {
		return
	}
	var parts []string
	var at Origin
	for it := n.Key(); it.Next(); {
		if parts == nil {
			at = r.at(it.Node())
		}
		parts = append(parts, string(it.Node().Data))
	}
	name := strings.Join(parts, ".")
	shown := name
	if len(shown) > mostShown {
		shown = shown[:mostShown] + "..."
	}
	if n.Kind != unstable.KeyValue {
		r.table = true
		r.wrong(at, tableHint, "there is no table %q", shown)
		return
	}
	if r.table {
		return // one error says it
	}
	if k := Find(name); k != nil && len(parts) == 1 {
		r.key(k, name, at, n.Value())
		return
	}
	hint := "'aisb config show' lists the keys"
	if near := nearest(parts[len(parts)-1]); near != "" {
		hint = "did you mean " + near + "?"
	}
	r.wrong(at, hint, "unknown key %q", shown)
}

// key reads the value of a key that there is. name is what it was called.
func (r *reader) key(k *Key, name string, at Origin, n *unstable.Node) {
	if r.From == ProjectFile && k.Who == User {
		r.wrong(at, fmt.Sprintf("an agent can write this file: pass --%s, or set it in your own file ('aisb config path')", k.FlagName()),
			"%s can't be set by a project", name)
		return
	}
	if k.Kind != List {
		r.value(k, name, at, n, k.Kind)
		return
	}
	if n.Kind != unstable.Array {
		r.wrong(at, fmt.Sprintf("write %s = %s", name, k.sample()), "%s is %s, not %s", name, called(n.Kind), k.Kind)
		return
	}
	for it := n.Children(); it.Next(); {
		if e := it.Node(); e.Kind != unstable.Comment {
			if e.Raw.Length > 0 {
				at = r.at(e)
			}
			r.value(k, name, at, e, Text)
		}
	}
}

// value reads one string, number or truth.
func (r *reader) value(k *Key, name string, at Origin, n *unstable.Node, kind Kind) {
	text := string(n.Data)
	fits := false
	switch n.Kind {
	case unstable.String:
		fits = kind != Switch
	case unstable.Bool:
		fits = kind == Switch || kind == Choice
	case unstable.Integer, unstable.Float:
		fits = kind == Number
		text = strings.ReplaceAll(strings.TrimPrefix(text, "+"), "_", "")
	}
	sample := k.sample()
	switch {
	case !fits && k.Kind == List:
		r.wrong(at, fmt.Sprintf("write %s = %s", name, sample), "%s holds %s, not only strings", name, called(n.Kind))
	case !fits:
		r.wrong(at, fmt.Sprintf("write %s = %s", name, sample), "%s is %s, not %s", name, called(n.Kind), kind)
	case strings.TrimSpace(text) == "":
		r.wrong(at, "leave it out", "%s holds an empty string", name)
	case strings.ContainsRune(text, 0):
		r.wrong(at, "leave the zero byte out", "%s holds a zero byte", name)
	case r.From == ProjectFile && slices.Contains(k.Reserved, text):
		r.wrong(at, fmt.Sprintf("an agent can write this file: pass --%s %s if you mean it", k.FlagName(), text),
			"%s can't be set to %q by a project", name, text)
	default:
		r.values = append(r.values, Value{Key: k, Text: r.path(k, text), Origin: at})
	}
}

func (r *reader) path(k *Key, text string) string {
	switch k.Path {
	case WholePath:
		return resolve(text, r.Dir, r.Home)
	case MountPath:
		return resolveMount(text, r.Dir, r.Home)
	}
	return text
}

// called is what a message calls a type of TOML.
func called(k unstable.Kind) string {
	switch k {
	case unstable.String:
		return "a string"
	case unstable.Bool:
		return "true or false"
	case unstable.Integer, unstable.Float:
		return "a number"
	case unstable.Array:
		return "an array"
	case unstable.InlineTable:
		return "a table"
	}
	return "a date or a time"
}
