package config

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzParse holds that whatever a file holds, reading it ends, an error names a line
// of it, a project's file sets nothing that is the user's, and what is shown of a
// variable is its name.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		UserSample, ProjectSample, "allow = ['a.test']\n", "allow = [\n\"x\\u0041\",]\nenv=['A=b']", "[x]\n", "a.b = 1", "net = 'full'",
		"mounts = ['~/a\\\\:b:/c']", "\ufeff", "memory = 1_0", "no-gate = 'dns'", "allow = [1, {a = [2]}]", "home = '''\n\nx'''\r\nnet='none'",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, from := range []From{UserFile, ProjectFile} {
			values, err := Parse(Source{From: from, Name: "F", Dir: "/d", Home: "/h", Data: data})
			if err != nil {
				if values != nil {
					t.Fatalf("values of a file with an error: %v", values)
				}
				all := []error{err}
				if joined, ok := err.(interface{ Unwrap() []error }); ok {
					all = joined.Unwrap()
				}
				for _, one := range all {
					if e, ok := one.(*Error); !ok || e.Origin.Line < 1 || e.Origin.Line > lines {
						t.Fatalf("%d lines: %#v", lines, one)
					}
				}
				continue
			}
			for _, v := range values {
				if v.Origin.Line < 1 || v.Origin.Line > lines || v.Text == "" || strings.ContainsRune(v.Text, 0) {
					t.Fatalf("%d lines: %+v", lines, v)
				}
				if from == ProjectFile && (v.Key.Who == User || v.Key.Name == "net" && v.Text == "full") {
					t.Fatalf("a project sets %s", v.Key.Name)
				}
				if _, value, ok := strings.Cut(v.Text, "="); ok && v.Key.Name == "env" && value != "" && value != "..." && strings.HasSuffix(v.Show(), value) {
					t.Fatalf("%q is shown", v.Show())
				}
			}
			Says(values)
			Merge(values, values)
		}
	})
}
