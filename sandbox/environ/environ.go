// Package environ makes the environment of the command in the sandbox. Nothing
// of the host's passes unless it is named; values may hold any byte but NUL.
// It is pure: the host's environment comes in as a function.
package environ

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Var is one variable.
type Var struct {
	Name  string
	Value []byte
}

// Lookup finds a variable of the host, like os.LookupEnv.
type Lookup = func(name string) (value string, ok bool)

// Error is what is wrong with what the user named. It never holds a value.
type Error struct {
	Where  string // "--env", or file:line
	Reason string
	Hint   string
}

func (e *Error) Error() string { return e.Where + ": " + e.Reason }

// Parse reads the values of -e: NAME takes the host's value, NAME=VALUE is
// taken as it stands.
func Parse(flags []string, lookup Lookup) ([]Var, error) {
	vars := make([]Var, 0, len(flags))
	for _, flag := range flags {
		name, value, assigned := strings.Cut(flag, "=")
		v, err := define("--env", name, value, assigned, lookup)
		if err != nil {
			return nil, err
		}
		vars = append(vars, v)
	}
	return vars, nil
}

// define checks one definition, or takes its value from the host.
func define(where, name, value string, assigned bool, lookup Lookup) (Var, error) {
	if reason := badName(name); reason != "" {
		return Var{}, &Error{Where: where, Reason: reason, Hint: "write NAME to pass the host's value, or NAME=VALUE"}
	}
	if !assigned {
		var ok bool
		if value, ok = lookup(name); !ok {
			return Var{}, &Error{
				Where: where, Reason: show(name) + " is not set on the host",
				Hint: "export it, give the value here (NAME=VALUE), or leave it out",
			}
		}
	}
	if strings.IndexByte(value, 0) >= 0 {
		return Var{}, &Error{Where: where, Reason: "the value of " + show(name) + " holds a NUL byte", Hint: "no program can get such a value: encode it"}
	}
	return Var{Name: name, Value: []byte(value)}, nil
}

// badName is the reason why name can't be a variable's, "" if it can. Beside
// "=" and NUL, which the kernel's format leaves no way to pass, white space
// and control characters are refused: they come from a mistake in quoting.
func badName(name string) string {
	if name == "" {
		return "a variable without a name"
	}
	for i, r := range name {
		if r <= ' ' || r == 0x7f {
			return "white space or a control character in a variable's name, after " + show(name[:i])
		}
		if r == '=' {
			return "a = in a variable's name"
		}
	}
	return ""
}

// show quotes a name for a message if it looks like one. What else stands in
// its place may be a secret whose quotes were forgotten: a line of a key, say.
func show(name string) string {
	odd := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if len(name) > 48 || strings.ContainsFunc(name, odd) {
		return fmt.Sprintf("a name of %d bytes that is not shown", len(name))
	}
	return strconv.Quote(name)
}

// Merge makes the environment out of lists, the later winning over the
// earlier. It returns "NAME=VALUE" in the order of names, and the names alone.
func Merge(lists ...[]Var) (env [][]byte, names []string, err error) {
	values := make(map[string][]byte)
	for _, list := range lists {
		for _, v := range list {
			if reason := badName(v.Name); reason != "" {
				return nil, nil, &Error{Where: "environment", Reason: reason}
			}
			if bytes.IndexByte(v.Value, 0) >= 0 {
				return nil, nil, &Error{Where: "environment", Reason: "the value of " + show(v.Name) + " holds a NUL byte"}
			}
			values[v.Name] = v.Value
		}
	}
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	total := 0
	for _, name := range names {
		kv := slices.Concat([]byte(name), []byte("="), values[name])
		if total += len(kv) + 1; len(kv)+1 > maxVar {
			return nil, nil, &Error{
				Where:  "environment",
				Reason: fmt.Sprintf("%s has %d bytes, with which Linux starts no program: %d are the most", show(name), len(kv), maxVar-1),
				Hint:   bigHint,
			}
		}
		env = append(env, kv)
	}
	if total > maxAll {
		return nil, nil, &Error{
			Where:  "environment",
			Reason: fmt.Sprintf("all variables have %d bytes, with which Linux starts no program: %d are the most", total, maxAll),
			Hint:   bigHint,
		}
	}
	return env, names, nil
}

// What execve(2) takes: MAX_ARG_STRLEN for one string, with its zero byte, and
// three quarters of _STK_LIM for all (fs/exec.c). Said here, it names the
// variable.
const (
	maxVar  = 32 * 4096
	maxAll  = 6 << 20
	bigHint = "put it into a file, and the file where the command can read it: --mount HOST:CTR:ro"
)

// GitConfig makes git configuration of command scope out of key and value
// pairs (git-config(1), GIT_CONFIG_COUNT). All pairs must come in one call: a
// second list of variables would replace the first.
func GitConfig(pairs [][2]string) []Var {
	if len(pairs) == 0 {
		return nil
	}
	vars := []Var{{"GIT_CONFIG_COUNT", []byte(strconv.Itoa(len(pairs)))}}
	for i, p := range pairs {
		n := strconv.Itoa(i)
		vars = append(vars, Var{"GIT_CONFIG_KEY_" + n, []byte(p[0])}, Var{"GIT_CONFIG_VALUE_" + n, []byte(p[1])})
	}
	return vars
}
