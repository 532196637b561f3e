package home

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Usage is how much room a home takes on the disk.
type Usage struct {
	Bytes   int64
	Files   int
	Partial bool // not all of it could be looked at
}

// mostDeep is how deep a home is measured. Each step down costs what all above it have
// cost, and an agent can make a hundred thousand in a moment.
const mostDeep = 200

// Measure adds the files of the home in dir up.
func Measure(dir string) (Usage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Usage{}, fmt.Errorf("measure the home: %w", err)
	}
	defer root.Close()
	var u Usage
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			u.Partial = true // a directory of another user inside, or one that has just gone
			return nil       //nolint:nilerr // Partial says it
		}
		if d.IsDir() && strings.Count(name, "/") >= mostDeep {
			u.Partial = true
			return fs.SkipDir
		}
		info, err := d.Info() // by the root: no link leads out of it
		if err != nil {
			u.Partial = true
			return nil //nolint:nilerr // as above
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			u.Bytes += st.Blocks * 512 // stat(2)
		}
		if !d.IsDir() {
			u.Files++
		}
		return nil
	})
	if err != nil {
		return Usage{}, fmt.Errorf("measure the home: %w", err)
	}
	return u, nil
}
