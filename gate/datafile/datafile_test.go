package datafile

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestDir(t *testing.T) {
	d := Dir{FS: fstest.MapFS{
		"x/a.json": {Data: []byte("1")}, "x/a-b.json": {Data: []byte("2")}, "x/README": {}, "secret.json": {Data: []byte("3")},
	}, Name: "x"}
	if got := d.Names(); !slices.Equal(got, []string{"a", "a-b"}) {
		t.Errorf("names %q", got)
	}
	for name, want := range map[string]string{"a": "1", "a-b": "2", "": "", "README": "", "../secret": "", "a.json": ""} {
		if got, ok := d.Read(name); string(got) != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", name, got, ok)
		}
	}
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a": 1}`: true, " {}\n": true, `{"b": 1}`: false, `{"a": 1} {}`: false, `{"a": 1}]`: false, `{"a": "x"}`: false, ``: false, `{"a": 1`: false,
	} {
		var v struct {
			A int `json:"a"`
		}
		if err := Parse([]byte(text), &v); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
