package config

import (
	"slices"
)

// Settings are the values of several layers, merged.
type Settings struct {
	byKey map[string][]Value
}

// netAllow is the value of net with which there is a gate. It is the default.
const netAllow = "allow"

// Merge merges layers, the later overriding the earlier: lists add up, of all else
// the last value stays. What another choice of a later layer makes meaningless goes.
func Merge(layers ...[]Value) Settings {
	s := Settings{byKey: map[string][]Value{}}
	for _, layer := range layers {
		for _, v := range layer {
			if v.Key.Not != "" && v.Text != "false" {
				s.drop(v.Key.Not, v.Origin.From)
			}
		}
		for _, v := range layer {
			old := s.byKey[v.Key.Name]
			if v.Key.Kind != List {
				old = nil
			}
			s.byKey[v.Key.Name] = append(slices.Clip(old), v)
		}
	}
	if net, ok := s.Last("net"); ok && net.Text != netAllow {
		for i := range Keys {
			if Keys[i].Gate {
				s.drop(Keys[i].Name, Flag)
			}
		}
	}
	return s
}

// drop takes the values of a key out that come from before a place.
func (s Settings) drop(name string, before From) {
	s.byKey[name] = slices.DeleteFunc(slices.Clone(s.byKey[name]), func(v Value) bool { return v.Origin.From < before })
}

// Values are the values of a key: several of a list, at most one of another.
func (s Settings) Values(name string) []Value { return s.byKey[name] }

// Last is the value of a key that isn't a list.
func (s Settings) Last(name string) (Value, bool) {
	values := s.byKey[name]
	if len(values) == 0 {
		return Value{}, false
	}
	return values[len(values)-1], true
}

// Texts are the values of a key, as flags would take them.
func (s Settings) Texts(name string) []string {
	var texts []string
	for _, v := range s.byKey[name] {
		texts = append(texts, v.Text)
	}
	return texts
}

// Narrowed splits a project's values: those that count although nobody has
// approved the file, and the others.
func Narrowed(values []Value) (count, not []Value) {
	for _, v := range values {
		if v.Key.Narrows {
			count = append(count, v)
		} else {
			not = append(not, v)
		}
	}
	return count, not
}
