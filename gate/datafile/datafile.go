// Package datafile reads the JSON files that a package has in the binary: one for
// each thing that it knows, called by the thing's name.
package datafile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Dir is a directory of such files.
type Dir struct {
	FS   fs.FS
	Name string
}

// Names are the names of all, sorted.
func (d Dir) Names() []string {
	entries, err := fs.ReadDir(d.FS, d.Name)
	if err != nil {
		return nil // the files are in the binary
	}
	var names []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".json"); is {
			names = append(names, name)
		}
	}
	slices.Sort(names) // a-b.json comes before a.json
	return names
}

// Read returns the file called name, and whether there is one.
func (d Dir) Read(name string) ([]byte, bool) {
	if !slices.Contains(d.Names(), name) {
		return nil, false
	}
	data, err := fs.ReadFile(d.FS, path.Join(d.Name, name+".json"))
	return data, err == nil
}

// Parse reads a file into v. A key that v doesn't have, or anything after the first
// value, is an error.
func Parse(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after its end")
	}
	return nil
}
