package config

import (
	"path"
	"strconv"
	"strings"
)

// From is the kind of place that a value came from, in the order of who overrides
// whom.
type From int

// The kinds of place.
const (
	Default From = iota
	UserFile
	ProjectFile
	Environment
	Flag
)

// String is the kind of place in a word.
func (f From) String() string {
	return [...]string{"default", "user", "project", "environment", "flag"}[f]
}

// Origin is where a value stands.
type Origin struct {
	From From
	Name string // of the file, the variable, or the flag with its dashes
	Line int    // in a file
}

// String is the origin as a message shows it.
func (o Origin) String() string {
	switch {
	case o.From == Default:
		return "default"
	case o.Line > 0:
		return o.Name + ":" + strconv.Itoa(o.Line)
	}
	return o.Name
}

// InFile reports whether the value stands in a configuration file.
func (o Origin) InFile() bool { return o.From == UserFile || o.From == ProjectFile }

// Value is one value of a key and where it stands. Text is as the flag would take
// it.
type Value struct {
	Key    *Key
	Text   string
	Origin Origin
}

// Show is the value for people. Of a variable it is the name alone: a value may be
// a secret.
func (v Value) Show() string {
	if v.Key.Name == "env" {
		if name, _, assigned := strings.Cut(v.Text, "="); assigned {
			return name + "=..."
		}
	}
	return v.Text
}

// resolve makes a path of a file's one of the host's: it is relative to the file's
// directory, and no shell has replaced a ~.
func resolve(text, dir, home string) string {
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		return home + text[1:]
	case path.IsAbs(text) || strings.HasPrefix(text, "~"):
		return text
	}
	return path.Join(dir, text)
}

// resolveMount does so with the host's part of HOST:CTR[:ro]. A name without a
// slash stays what it is: it may be meant as a volume's, which a run refuses.
func resolveMount(text, dir, home string) string {
	end := 0
	for end < len(text) && text[end] != ':' {
		if text[end] == '\\' {
			end++ // \: and \\ (sandbox/mounts)
		}
		end++
	}
	end = min(end, len(text))
	host, rest := text[:end], text[end:]
	if host == "" || host != "." && host != ".." && host != "~" && !strings.Contains(host, "/") {
		return text
	}
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
	return resolve(host, escape.Replace(dir), escape.Replace(home)) + rest
}
