package home

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Usage is how much room a home takes on the disk.
type Usage struct {
	Bytes   int64
	Files   int
	Partial bool // not all of it could be looked at
}

// Measure adds the files of the home in dir up.
func Measure(dir string) (Usage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Usage{}, fmt.Errorf("measure the home: %w", err)
	}
	defer root.Close()
	var u Usage
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			u.Partial = true // a directory of another user inside, or one that has just gone
			return nil       //nolint:nilerr // Partial says it
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
