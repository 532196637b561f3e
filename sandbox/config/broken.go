package config

import (
	"regexp"
	"strings"
	"sync"
)

// broken is a line that is no TOML, as far as it can be told what was meant.
type broken struct {
	key    *Key   // that the line begins with, or in whose array it stands; nil when that isn't known
	name   string // of the key, as it is called there
	value  string // after its =; "" on a line without the key
	rest   string // from where it can't be read
	line   string // all of it
	secret bool   // it may hold a variable's value
}

// pattern is compiled when the first line is wrong: no start pays for it.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	keyLine = pattern(`^["']?([A-Za-z0-9_-]+)["']?(?:\s*[=:]+\s*(.*)|\s+(.*)|)$`)
	envLine = pattern(`(?m)^\s*["']?env["']?\s*=`)
)

// breaks looks at a line of a text; it and the column are counted from 1.
func breaks(data []byte, row, column int) broken {
	lines := strings.Split(string(data), "\n")
	row = min(max(row, 1), len(lines))
	line := strings.TrimSuffix(lines[row-1], "\r")
	b := broken{line: strings.TrimSpace(line), rest: strings.TrimSpace(line[min(max(column-1, 0), len(line)):])}
	for i := row; i > 0; i-- {
		parts := keyLine().FindStringSubmatch(strings.TrimSpace(lines[i-1]))
		if parts == nil || i < row && !strings.Contains(lines[i-1], "=") {
			continue
		}
		if b.key = Find(parts[1]); b.key != nil {
			b.name = parts[1]
		}
		if i == row {
			b.value = parts[2] + parts[3]
		}
		break
	}
	before := strings.Join(lines[:row-1], "\n")
	if all := envLine().FindAllStringIndex(before, -1); all != nil {
		env := before[all[len(all)-1][0]:]
		if strings.Count(env, "[") > strings.Count(env, "]") { // what looks like another key stands in it
			b.key, b.name, b.value = Find("env"), "env", ""
		}
	}
	b.secret = b.key == nil || b.key.Name == "env" || strings.Contains(b.line, "env")
	return b
}

// shown is a part of the line for a message, "" when it may be secret.
func (b broken) shown(part string) string {
	if b.secret {
		return ""
	}
	if len(part) > mostShown {
		part = strings.ToValidUTF8(part[:mostShown], "") + "..."
	}
	return part
}

// write is the hint how the line is written, with its value where it is clear what was
// meant.
func (b broken) write() string {
	if b.key == nil {
		return keyHint
	}
	value := ""
	if !b.secret && len(b.value) <= mostShown {
		value = b.key.meant(b.value)
	}
	if value == "" {
		value = b.key.sample()
	}
	return "write " + b.name + " = " + value
}

// array is the hint for one that isn't closed, which the next line may show.
func (b broken) array() string {
	if b.value == "" || b.rest == b.line {
		return "an array is written as " + kinds[List].sample
	}
	return b.write()
}

var second = pattern(`^[\s,;]*([A-Za-z0-9_-]+)\s*=`)

// split is the hint for a line that goes on where it should end.
func (b broken) split() string {
	next := second().FindStringSubmatch(b.rest)
	if next == nil || Find(next[1]) == nil {
		return b.write()
	}
	return "each key has a line of its own: put " + next[1] + " = ... on the next"
}

// once is the hint for a key that stands there twice.
func (b broken) once() string {
	if b.key != nil && b.key.Kind == List {
		return "put all into one: " + b.name + " = " + b.key.sample()
	}
	return "leave one of the lines out"
}

const quotes = "\"'`“”„‘’«» \t"

// Values that are clear whatever stands around them.
var (
	simple = pattern(`^[A-Za-z0-9_.:/*@~+-]+$`)
	number = pattern(`^(0|[1-9][0-9]{0,17})(\.[0-9]+)?$`)
	sized  = pattern(`^[1-9][0-9]*[A-Za-z]$`)
)

var truths = map[string]string{
	"true": "true", "yes": "true", "on": "true", "y": "true", "1": "true",
	"false": "false", "no": "false", "off": "false", "n": "false", "0": "false",
}

// meant is a value that TOML doesn't know as it would be right, "" when that can't be
// told.
func (k *Key) meant(value string) string {
	bare := strings.Trim(strings.TrimLeft(value, "#"), quotes)
	truth := truths[strings.ToLower(bare)]
	switch {
	case k.Kind == List:
		return meantList(strings.TrimSuffix(strings.TrimPrefix(bare, "["), "]"))
	case k.Kind == Switch || k.Kind == Choice && truth != "":
		return truth
	case k.Kind == Number && number().MatchString(bare):
		return bare
	case k.Kind == Number && !sized().MatchString(bare) || !simple().MatchString(bare):
		return ""
	}
	return `"` + bare + `"`
}

func meantList(text string) string {
	var list []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.Trim(one, quotes); !simple().MatchString(one) {
			return ""
		}
		list = append(list, `"`+one+`"`)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
