// Package config reads aisb's configuration files: the user's and a project's.
// It is pure: it makes values with their origins out of text, merges them in the
// order of who overrides whom, and says in words what they open. Who may set what
// stands in one table, Keys.
package config

import "slices"

// Kind is what a key holds.
type Kind int

// The kinds.
const (
	Text   Kind = iota // a string
	Number             // a number, or a string: 4096, 1.5, "8g"
	Switch             // true or false
	Choice             // true, false or a string
	List               // an array of strings; the lists of several files add up
)

// what a kind is called in messages, and how a value of it is written.
var kinds = [...]struct{ name, sample string }{
	Text:   {"a string", `"..."`},
	Number: {"a number or a string", "1"},
	Switch: {"true or false", "true"},
	Choice: {"true, false or a string", "true"},
	List:   {"an array of strings", `["...", "..."]`},
}

// String is the kind as a message calls it.
func (k Kind) String() string { return kinds[k].name }

// Paths says which part of a key's values is a path of the host, relative to the
// file's directory.
type Paths int

// What of a value is a path.
const (
	NoPath    Paths = iota
	WholePath       // all of it
	MountPath       // what stands before the first colon
)

// Who may set a key in a file.
type Who int

// The answers.
const (
	// Project: a project's file may, once its content is approved.
	Project Who = iota
	// User: the user's own file alone. An approval is given by a person in a
	// hurry, to a file that came with a repository: what takes a promise of aisb's
	// back isn't for that.
	User
)

// Key is one setting. It stands for a flag of 'aisb run'.
type Key struct {
	Name string
	Flag string // without --; the name when empty
	Kind Kind
	Who  Who
	Path Paths

	Alias string   // another name that is accepted
	Also  []string // names of other tools' that are suggested this one for
	Env   string   // variable that overrides the files

	Reserved []string // values that are for User alone
	Narrows  bool     // counts in a project's file that nobody has approved
	Gate     bool     // means nothing without the gate: left out with another net than allow
	Not      string   // key that excludes this one: the one of the later layer stays

	Like string // how a value is written, where the kind says too little
	Says string // what a value does, for who approves it; %s is the value
}

// FlagName is the flag that the key stands for, without --.
func (k *Key) FlagName() string {
	if k.Flag != "" {
		return k.Flag
	}
	return k.Name
}

// Find is the key of a name or an alias, nil when there is none.
func Find(name string) *Key {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name || k.Alias == name && name != "" })
	if i < 0 {
		return nil
	}
	return &Keys[i]
}

// ByFlag is the key that stands for a flag, nil when there is none.
func ByFlag(flag string) *Key {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.FlagName() == flag })
	if i < 0 {
		return nil
	}
	return &Keys[i]
}

// sample is how a value of the key is written.
func (k *Key) sample() string {
	if k.Like != "" {
		return k.Like
	}
	return kinds[k.Kind].sample
}
