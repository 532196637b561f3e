package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// EntryBinary returns a read-only copy of the running binary that the
// container mounts, named by its content: cache/entry-SHA256. The running
// binary itself would not do: an upgrade may swap the file between its start
// and podman's mount. A copy that doesn't hash to its name is made anew.
func EntryBinary(cache string, self *os.File) (string, error) {
	sum, err := hashFile(self)
	if err != nil {
		return "", fmt.Errorf("hash own binary: %w", err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("copy own binary: %w", err)
	}
	path := filepath.Join(cache, "entry-"+hex.EncodeToString(sum))
	copied, err := os.Open(path)
	if err == nil {
		defer copied.Close()
		if got, err := hashFile(copied); err == nil && bytes.Equal(got, sum) {
			return path, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("copy own binary: %w", err)
	}
	return path, copyBinary(self, path)
}

// copyBinary writes self to path, aside first, so that no run sees half of it.
func copyBinary(self *os.File, path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".entry-*")
	if err != nil {
		return fmt.Errorf("copy own binary: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = self.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(tmp, self)
	}
	if err == nil {
		err = tmp.Chmod(0o555)
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("copy own binary: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("copy own binary: %w", err)
	}
	return nil
}

func hashFile(f *os.File) ([]byte, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
