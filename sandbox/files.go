package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// File is a file of aisb's own that the command finds, read-only, in one place or
// in several. It is kept with the run's log: what an agent was told can be looked
// up later.
type File struct {
	Name    string   // in the run's directory, without a path
	Targets []string // absolute, in the container
	Data    []byte
}

// fileMounts are the mounts of the files of the Spec. state is the run's directory.
func (s Spec) fileMounts(state string) []podman.Mount {
	var list []podman.Mount
	for _, f := range s.Files {
		for _, target := range f.Targets {
			list = append(list, podman.Mount{Source: filepath.Join(state, f.Name), Target: target, ReadOnly: true})
		}
	}
	return list
}

// layFiles writes the files of the Spec and returns their mounts.
func (s *Session) layFiles() ([]podman.Mount, error) {
	for _, f := range s.spec.Files {
		if f.Name != filepath.Base(f.Name) || len(f.Targets) == 0 {
			return nil, fmt.Errorf("file %q for the container: it needs a plain name and a place", f.Name)
		}
		if err := writeNew(filepath.Join(s.dirs.State, f.Name), f.Data); err != nil {
			return nil, fmt.Errorf("write a file for the container: %w", err)
		}
	}
	return s.spec.fileMounts(s.dirs.State), nil
}

// writeNew makes a file that all in the container can read, whatever the umask;
// the directory above it is the user's alone.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
