package config

import (
	"slices"
	"strings"
	"testing"
)

// layer is a layer of flags and the like: "NAME=VALUE" each.
func layer(from From, name string, pairs ...string) []Value {
	var values []Value
	for _, pair := range pairs {
		key, text, _ := strings.Cut(pair, "=")
		values = append(values, Value{Find(key), text, Origin{From: from, Name: name}})
	}
	return values
}

func TestMerge(t *testing.T) {
	user := layer(UserFile, "user", "allow=a", "memory=1g", "home=mine", "deny=x", "env=A")
	project := layer(ProjectFile, "project", "allow=b", "memory=2g", "cpus=2")
	env := layer(Environment, "VAR", "home=var")
	flags := layer(Flag, "--f", "allow=c", "cpus=3")
	for _, row := range []struct {
		name   string
		layers [][]Value
		want   string
	}{
		{"lists add up, the last of all else stays", [][]Value{user, project, env, flags},
			"user allow=a\nproject allow=b\n--f allow=c\nuser deny=x\nuser env=A\nVAR home=var\nproject memory=2g\n--f cpus=3\n"},
		{"nothing", nil, ""},
		{"an excluded key goes", [][]Value{user, layer(Flag, "--f", "ephemeral-home=true")}[0:2],
			"user allow=a\nuser deny=x\nuser env=A\n--f ephemeral-home=true\nuser memory=1g\n"},
		{"one that is off excludes nothing", [][]Value{layer(UserFile, "user", "home=mine"), layer(Flag, "--f", "ephemeral-home=false")},
			"user home=mine\n--f ephemeral-home=false\n"},
		{"both in one place stay, and a run refuses them", [][]Value{layer(UserFile, "user", "home=mine", "ephemeral-home=true")},
			"user home=mine\nuser ephemeral-home=true\n"},
		{"a later file brings the other back", [][]Value{layer(UserFile, "user", "ephemeral-home=true"), layer(ProjectFile, "project", "home=p")},
			"project home=p\n"},
		{"without a gate its settings of files mean nothing", [][]Value{layer(UserFile, "user", "allow=a", "no-gate=true", "resolver=r", "memory=1g"), layer(Flag, "--f", "net=none")},
			"--f net=none\nuser memory=1g\n"},
		{"what flags say stays, and a run refuses it", [][]Value{layer(UserFile, "user", "allow=a", "net=none"), layer(Flag, "--f", "allow=b")},
			"--f allow=b\nuser net=none\n"},
		{"net can be turned back", [][]Value{layer(UserFile, "user", "allow=a", "net=none"), layer(Flag, "--f", "net=allow")},
			"user allow=a\n--f net=allow\n"},
	} {
		s := Merge(row.layers...)
		var values []Value
		for _, k := range Keys {
			values = append(values, s.Values(k.Name)...)
		}
		if got := show(values); got != row.want {
			t.Errorf("%s: got\n%swant\n%s", row.name, got, row.want)
		}
	}
}

// A layer is never changed by a merge: it is merged again by others.
func TestMergeLeavesLayers(t *testing.T) {
	user := layer(UserFile, "user", "allow=a", "allow=b")
	before := show(user)
	Merge(user, layer(Flag, "--f", "net=none"))
	one, two := Merge(user, layer(Flag, "--f", "allow=c")), Merge(user, layer(Flag, "--f", "allow=d"))
	if show(user) != before || !slices.Equal(one.Texts("allow"), []string{"a", "b", "c"}) || !slices.Equal(two.Texts("allow"), []string{"a", "b", "d"}) {
		t.Errorf("got %q, %q, %q", show(user), one.Texts("allow"), two.Texts("allow"))
	}
}

func TestNarrowed(t *testing.T) {
	var all []Value
	for i := range Keys {
		all = append(all, Value{Key: &Keys[i], Text: "x"})
	}
	count, not := Narrowed(all)
	if len(count) != 1 || count[0].Key.Name != "deny" || len(not) != len(Keys)-1 {
		t.Errorf("of a file that nobody approved %v counts", count)
	}
}

func TestShow(t *testing.T) {
	for text, want := range map[string]string{"NAME": "NAME", "NAME=secret": "NAME=...", "NAME=": "NAME=..."} {
		if got := (Value{Key: Find("env"), Text: text}).Show(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := (Value{Key: Find("allow"), Text: "a.test+upload=1MB"}).Show(); got != "a.test+upload=1MB" {
		t.Errorf("got %q", got)
	}
	for want, o := range map[string]Origin{
		"default": {}, "f.toml:3": {UserFile, "f.toml", 3}, "AISB_X": {From: Environment, Name: "AISB_X"}, "--x": {From: Flag, Name: "--x"},
	} {
		if o.String() != want {
			t.Errorf("got %v, want %s", o, want)
		}
	}
	if got := Flag.String() + Default.String() + ProjectFile.String(); got != "flagdefaultproject" {
		t.Errorf("got %s", got)
	}
}

func TestSays(t *testing.T) {
	values, err := parse(ProjectFile, `
deny = ["x.test"]
env = ["TOKEN", "LEVEL=secret"]
allow = ["a.test", "b.test:22+tcp"]
commands = ["echo hi"]
mounts = ["~/x y:/m"]
project-ro = true
ephemeral-home = false
memory = "8g"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"lets the sandbox reach a.test", "lets the sandbox reach b.test:22+tcp", "denies x.test",
		"passes your variable TOKEN", "sets the variable LEVEL", `mounts "/home/u/x y:/m"`, "mounts the project read-only",
		"sets ephemeral-home to false", `runs "echo hi" as root when the image is built`, "limits memory to 8g",
	}
	if got := Says(values); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestChanges(t *testing.T) {
	for _, row := range []struct{ old, now, want string }{
		{"", "", ""},
		{"a b", "b a", ""},
		{"a", "a b", "+ b"},
		{"a b", "b", "- a"},
		{"a a", "a", "- a"},
		{"a b", "c b d", "- a,+ c,+ d"},
	} {
		got := strings.Join(Changes(strings.Fields(row.old), strings.Fields(row.now)), ",")
		if got != row.want {
			t.Errorf("%q to %q: got %q, want %q", row.old, row.now, got, row.want)
		}
	}
}

// The samples are files as they stand, and with every # of a setting taken away.
func TestSamples(t *testing.T) {
	for from, text := range map[From]string{UserFile: UserSample, ProjectFile: ProjectSample} {
		if values, err := parse(from, text); err != nil || values != nil {
			t.Errorf("%v: %v, %v", from, values, err)
		}
		var b strings.Builder
		settings := 0
		for line := range strings.Lines(text) {
			plain := strings.TrimPrefix(line, "# ")
			if name, _, ok := strings.Cut(plain, " = "); ok && Find(name) != nil {
				line = plain
				settings++
			}
			b.WriteString(line)
		}
		values, err := parse(from, b.String())
		if err != nil || len(values) < settings || settings < 5 {
			t.Errorf("%v: %d settings, %d values, %v", from, settings, len(values), err)
		}
	}
}
