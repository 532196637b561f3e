package image

import (
	"crypto/sha256"
	_ "embed" // gitconfig, ssh_config and npmrc below
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Repository is the name of all images of aisb; the tag tells them apart.
const Repository = "localhost/aisb"

// File is one file of the build context.
type File struct {
	Name string // without a directory
	Data []byte
}

//go:embed gitconfig
var gitconfig []byte

//go:embed ssh_config
var sshConfig []byte

//go:embed npmrc
var npmrc []byte

// Context is every file of the build, the Containerfile first.
func (s Spec) Context() []File {
	files := []File{
		{Name: "Containerfile", Data: s.Containerfile()},
		{Name: "gitconfig", Data: gitconfig},
		{Name: "ssh_config", Data: sshConfig},
	}
	if s.Harness.NPM != nil {
		files = append(files, File{Name: "npmrc", Data: npmrc})
	}
	for _, path := range slices.Sorted(maps.Keys(s.Harness.Told.Image)) {
		files = append(files, File{Name: contextName(path), Data: append(s.Harness.Told.Image[path], '\n')})
	}
	return files
}

// contextName is what a file of the image is called in the context.
func contextName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "-")
}

// WriteContext writes the context into dir, which must exist and hold none of
// its files.
func (s Spec) WriteContext(dir string) error {
	for _, f := range s.Context() {
		// The mode is part of what COPY puts into the image.
		w, err := os.OpenFile(filepath.Join(dir, f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write build context: %w", err)
		}
		_, err = w.Write(f.Data)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Chmod(w.Name(), 0o644) // whatever the umask took
		}
		if err != nil {
			return fmt.Errorf("write build context: %w", err)
		}
	}
	return nil
}

// Tag names the image by all that went into it: the format, the base image and
// every byte of the context. It needs BaseID.
func (s Spec) Tag() string { return Repository + ":" + s.sum(s.BaseID)[:16] }

// Key names the Spec without what its base stood for at some time.
func (s Spec) Key() string { return s.sum("")[:16] }

func (s Spec) sum(baseID string) string {
	h := sha256.New()
	field(h, fmt.Appendf(nil, "aisb image %d", formatVersion))
	field(h, []byte(s.Base))
	field(h, []byte(baseID))
	for _, f := range s.Context() {
		field(h, []byte(f.Name))
		field(h, f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// field writes data with its length before it, so that no two lists of fields
// give the same stream.
func field(h hash.Hash, data []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(data)))
	h.Write(n[:])
	h.Write(data)
}
