package config

import (
	"fmt"
	"strings"
	"testing"
)

func parse(from From, text string) ([]Value, error) {
	return Parse(Source{From: from, Name: "F", Dir: "/dir", Home: "/home/u", Data: []byte(text)})
}

// show is what was read, a line each.
func show(values []Value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%v %s=%s\n", v.Origin, v.Key.Name, v.Text)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"comments", "# a\n\n  # b\n", ""},
		{"each rule has its line", "allow = [\n  'a.test', # one\n  # two\n  \"b.test:443\",\n]\ndeny = ['c.test']", "F:2 allow=a.test\nF:4 allow=b.test:443\nF:6 deny=c.test\n"},
		{"aliases add to the list", "allow = ['a.test']\nallowedDomains = [\"b.test\", \"c.test\"]\ndeniedDomains = [\"d.test\"]\n",
			"F:1 allow=a.test\nF:2 allow=b.test\nF:2 allow=c.test\nF:3 deny=d.test\n"},
		{"a pasted JSON array", "allowedDomains = [\n    \"a.test\",\n    \"*.b.test\"\n  ]\n", "F:2 allow=a.test\nF:3 allow=*.b.test\n"},
		{"an empty list", "allow = []\n", ""},
		{"an empty array over lines", "allow = [\n]\n", ""},
		{"numbers", "pids-limit = 1_000\ncpus = 1.5\nmemory = \"8g\"\n", "F:1 pids-limit=1000\nF:2 cpus=1.5\nF:3 memory=8g\n"},
		{"truths", "project-ro = true\nephemeral-home = false\n", "F:1 project-ro=true\nF:2 ephemeral-home=false\n"},
		{"a choice", "no-gate = true\n", "F:1 no-gate=true\n"},
		{"a choice by name", "no-gate = \"dns\"\n", "F:1 no-gate=dns\n"},
		{"variables", "env = ['A', 'B=x = \"y\"']\n", "F:1 env=A\nF:1 env=B=x = \"y\"\n"},
		{"strings over lines", "net = \"\"\"\nallow\"\"\"\nhome = 'x'\n", "F:1 net=allow\nF:3 home=x\n"},
		{"quoted keys", "\"allow\" = ['a.test']\n'net' = 'none'\n", "F:1 allow=a.test\nF:2 net=none\n"},
		{"an editor's mark", "\ufeffnet = 'none'\r\nhome = 'x'\r\n", "F:1 net=none\nF:2 home=x\n"},
		{"paths", "env-files = ['x', '../y', '/z', '~/k', '~']\n",
			"F:1 env-files=/dir/x\nF:1 env-files=/y\nF:1 env-files=/z\nF:1 env-files=/home/u/k\nF:1 env-files=/home/u\n"},
		{"mounts", `mounts = ['./a:/m/a', '../b:/m/b:ro', '/c:/m/c', '~/d:/m/d', 'e/f:/m/f', 'volume:/m/v', '.:/m/h', '~x/y:/m/y', './g\:h:/m/g']`,
			"F:1 mounts=/dir/a:/m/a\nF:1 mounts=/b:/m/b:ro\nF:1 mounts=/c:/m/c\nF:1 mounts=/home/u/d:/m/d\nF:1 mounts=/dir/e/f:/m/f\n" +
				"F:1 mounts=volume:/m/v\nF:1 mounts=/dir:/m/h\nF:1 mounts=~x/y:/m/y\nF:1 mounts=/dir/g\\:h:/m/g\n"},
		{"the user's hatches", "net = 'full'\nshare = true\nallow-unenforced = true\nallow-all-names = true", "F:1 net=full\nF:2 share=true\nF:3 allow-unenforced=true\nF:4 allow-all-names=true\n"},
	} {
		got, err := parse(UserFile, row.text)
		if err != nil || show(got) != row.want {
			t.Errorf("%s: got\n%s%v, want\n%s", row.name, show(got), err, row.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, row := range []struct{ text, want, hint string }{
		{"alow = ['x']", `F:1: unknown key "alow"`, "did you mean allow?"},
		{"\n\nallowed_domains = ['x']", `F:3: unknown key "allowed_domains"`, "did you mean allow?"},
		{"mount = ['x']", `F:1: unknown key "mount"`, "did you mean mounts?"},
		{"pids_limit = 1", `F:1: unknown key "pids_limit"`, "did you mean pids-limit?"},
		{"network = 'none'", `F:1: unknown key "network"`, "did you mean net?"},
		{strings.Repeat("x", 1000) + " = 1", `F:1: unknown key "` + strings.Repeat("x", mostShown) + `..."`, "'aisb config show' lists the keys"},
		{"mem_limit = '8g'", `F:1: unknown key "mem_limit"`, "did you mean memory?"},
		{"readonly = true", `F:1: unknown key "readonly"`, "did you mean project-ro?"},
		{"extra-args = ['--privileged']", `F:1: unknown key "extra-args"`, "'aisb config show' lists the keys"},
		{"x = 1", `F:1: unknown key "x"`, "'aisb config show' lists the keys"},
		{"network.allowedDomains = ['x']", `F:1: unknown key "network.allowedDomains"`, "did you mean allow?"},
		{"\"a\\u001b.b\" = 1", "F:1: unknown key \"a\\x1b.b\"", "'aisb config show' lists the keys"},
		{"[network]\nallow = ['x']", `F:1: there is no table "network"`, `leave the line out: keys stand alone, as allow = ["example.com"]`},
		{"[[mounts]]\nx = 1", `F:1: there is no table "mounts"`, `leave the line out: keys stand alone, as allow = ["example.com"]`},
		{"allow = 'x.test'", `F:1: allow is a string, not an array of strings`, `write allow = ["...", "..."]`},
		{"allow = [\n'x.test',\n 443]", `F:3: allow holds a number, not only strings`, `write allow = ["...", "..."]`},
		{"allow = [['x.test']]", `F:1: allow holds an array, not only strings`, `write allow = ["...", "..."]`},
		{"allow = [{a = 1}]", `F:1: allow holds a table, not only strings`, `write allow = ["...", "..."]`},
		{"env = {A = 'secret'}", `F:1: env is a table, not an array of strings`, `write env = ["...", "..."]`},
		{"net = true", `F:1: net is true or false, not a string`, `write net = "none"`},
		{"net = 2026-11-30", `F:1: net is a date or a time, not a string`, `write net = "none"`},
		{"share = 'yes'", `F:1: share is a string, not true or false`, "write share = true"},
		{"memory = true", `F:1: memory is true or false, not a number or a string`, `write memory = "8g"`},
		{"no-gate = 1", `F:1: no-gate is a number, not true, false or a string`, "write no-gate = true"},
		{"home = ''", "F:1: home holds an empty string", "leave it out"},
		{"allow = ['a.test', ' ']", "F:1: allow holds an empty string", "leave it out"},
		{"home = \"a\\u0000b\"", "F:1: home holds a zero byte", "leave the zero byte out"},
		{"net = 'none'\nnet = 'allow'", "F:2: key net is already defined: net = 'allow'", "leave one of the lines out"},
		{"deny = ['a']\ndeny = ['b']", "F:2: key deny is already defined: deny = ['b']", `put all into one: deny = ["...", "..."]`},
		{"a line\n", "F:1: there is no = after the key", keyHint},
		{"net = 'none'\n= 3", "F:2: there is no key at the start of the line", keyHint},
		{"net 'none'", "F:1: there is no = after the key: net 'none'", `write net = "none"`},
		{"[run\nnet = 'none'", "F:1: the closing ] is missing", tableHint},
		{"allow = ['a.test'\ndeny = []", "F:2: a quote, a comma or the closing ] is missing before this: deny = []", `an array is written as ["...", "..."]`},
		{`allow = ["a.test, "b.test"]`, `F:1: a quote, a comma or the closing ] is missing: allow = ["a.test, "b.test"]`, `write allow = ["a.test", "b.test"]`},
		{"home = \"\xff\"", "F:1: a character is not UTF-8", "save the file as UTF-8"},
		{"net = none", "F:1: " + unquoted + ": net = none", `write net = "none"`},
		{"home = “mine”", "F:1: " + unquoted + ": home = “mine”", `write home = "mine"`},
		{"memory = 8g", "F:1: " + unquoted + ": memory = 8g", `write memory = "8g"`},
		{"no-gate = Yes", "F:1: " + unquoted + ": no-gate = Yes", "write no-gate = true"},
		{"deny = a.test, *.b.test", "F:1: " + unquoted + ": deny = a.test, *.b.test", `write deny = ["a.test", "*.b.test"]`},
		{"deny = [\n a.test\n]", "F:2: " + unquoted + ": a.test", `write deny = ["...", "..."]`},
		{"share = yes", "F:1: the value is not true or false: share = yes", "write share = true"},
		{"share = Off", "F:1: the value is not true or false: share = Off", "write share = false"},
		{"cpus = #2", "F:1: the value is missing, as # begins a comment: cpus = #2", "write cpus = 2"},
		{`memory = #"8g"`, `F:1: the value is missing, as # begins a comment: memory = #"8g"`, `write memory = "8g"`},
		{"cpus = 1,5", "F:1: the line goes on where it should end: cpus = 1,5", "write cpus = 1.5"},
		{"net = 'none' x", "F:1: the line goes on where it should end: net = 'none' x", `write net = "none"`},
		{`memory = "8g" cpus = 2`, `F:1: the line goes on where it should end: memory = "8g" cpus = 2`, "each key has a line of its own: put cpus = ... on the next"},
		{`memory = "8g` + "\ncpus = 2", `F:1: the closing quote is missing: memory = "8g`, `write memory = "8g"`},
		{"memory = '8g", "F:1: the closing quote is missing: memory = '8g", `write memory = "8g"`},
		{"memory = 08", "F:1: the number can't be read: memory = 08", `write memory = "8g"`},
		{"memory == 8", "F:1: there is a second =: memory == 8", "write memory = 8"},
		{"home =", "F:1: the value is missing: home =", `write home = "..."`},
		{"home =\n", "F:1: the value is missing: home =", `write home = "..."`},
		{"home =\r\n", "F:1: the value is missing: home =", `write home = "..."`},
		{`home = "\q"`, `F:1: invalid escape character 'q': home = "\q"`, escapeHint},
		{"net = " + strings.Repeat("x", 1000), "F:1: " + unquoted + ": net = " + strings.Repeat("x", mostShown-6) + "...", `write net = "none"`},
		// Nothing that may be a variable's value is shown.
		{"env = A=secret", "F:1: " + unquoted, `write env = ["...", "..."]`},
		{"env = ['A=secret]", "F:1: the closing quote is missing", `write env = ["...", "..."]`},
		{"env = [\n'A=x',\nhome=secret\n]", "F:3: " + unquoted, `write env = ["...", "..."]`},
		{"memory = '8g' env = ['A=secret']", "F:1: the line goes on where it should end", "each key has a line of its own: put env = ... on the next"},
		{"TOKEN=secret", "F:1: " + unquoted, keyHint},
	} {
		values, err := parse(UserFile, row.text)
		joined, ok := err.(interface{ Unwrap() []error })
		if ok {
			err = joined.Unwrap()[0]
		}
		e, ok := err.(*Error)
		if !ok || values != nil || !strings.HasPrefix(e.Error(), row.want) || e.Hint != row.hint || strings.Contains(e.Error()+e.Hint, "secret") {
			t.Errorf("%q: got %v, %#v, want %s", row.text, values, err, row.want)
		}
	}
}

// Every wrong line is told, and with one nothing counts.
func TestParseAllErrors(t *testing.T) {
	values, err := parse(UserFile, "allow = ['a.test']\nx = 1\nnet = 3\nshare = 1\n")
	if values != nil || err == nil {
		t.Fatalf("got %v, %v", values, err)
	}
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != 3 {
		t.Errorf("%d errors, want 3: %v", n, err)
	}
}

// A project's file holds nothing that takes a promise back, not even said to be off.
func TestProjectCant(t *testing.T) {
	tried := 0
	for _, k := range Keys {
		if k.Who != User {
			continue
		}
		tried++
		text := map[Kind]string{Switch: "true", Choice: "true", List: "['x']", Text: "'x'", Number: "1"}[k.Kind]
		values, err := parse(ProjectFile, k.Name+" = "+text)
		if err == nil || values != nil || !strings.Contains(err.Error(), "F:1: "+k.Name+" can't be set by a project") {
			t.Errorf("%s: got %v, %v", k.Name, values, err)
		}
		if _, err := parse(UserFile, k.Name+" = "+text); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	for _, name := range []string{"allow-unenforced", "insecure-keep-root", "allow-unsafe-dir", "allow-sockets", "share", "allow-userns", "no-gate", "allow-all-names"} {
		if k := Find(name); k == nil || k.Who != User {
			t.Errorf("a project may set %s", name)
		}
	}
	if _, err := parse(ProjectFile, "net = 'full'"); err == nil || !strings.Contains(err.Error(), `net can't be set to "full" by a project`) {
		t.Errorf("net = full: %v", err)
	}
	if _, err := parse(ProjectFile, "net = 'none'"); err != nil {
		t.Error(err)
	}
	if tried < 9 {
		t.Errorf("only %d keys are the user's alone", tried)
	}
}

func TestKeysAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Keys {
		for _, name := range []string{k.Name, k.Alias} {
			if names[name] && name != "" {
				t.Errorf("%s is there twice", name)
			}
			names[name] = true
		}
		if k.Says == "" || k.Kind == Switch && strings.Contains(k.Says, "%s") {
			t.Errorf("%s says %q", k.Name, k.Says)
		}
		if k.Not != "" && (Find(k.Not) == nil || Find(k.Not).Not != k.Name) {
			t.Errorf("%s and %s don't exclude each other", k.Name, k.Not)
		}
		if k.Narrows && k.Name != "deny" {
			t.Errorf("%s counts without an approval", k.Name)
		}
	}
	if Find("") != nil || Find("allow") != ByFlag("allow") || ByFlag("mount") != Find("mounts") {
		t.Error("keys aren't found")
	}
}
