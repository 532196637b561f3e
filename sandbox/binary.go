package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// EntryBinary returns a read-only copy of the running binary that the
// container mounts, named by its content: cache/entry-SHA256. The running
// binary itself would not do: an upgrade may swap the file between its start
// and podman's mount. A copy that doesn't hash to its name is made anew.
//
// Hashing both takes a tenth of a whole start, so what was hashed before is
// remembered by what the kernel says of the two files. Their change time can't
// be set by anyone (inode(7)), and nobody but the user, who is trusted, can
// write in the cache.
func EntryBinary(cache string, self *os.File) (string, error) {
	now, err := stateOf(self.Stat())
	if err != nil {
		return "", fmt.Errorf("hash own binary: %w", err)
	}
	if path, ok := remembered(cache, now); ok {
		return path, nil
	}
	path, err := entryBinary(cache, self)
	if err != nil {
		return "", err
	}
	// Not remembering costs time, nothing else.
	if copied, err := stateOf(os.Stat(path)); err == nil {
		remember(cache, hashed{Name: filepath.Base(path), Self: now, Copy: copied})
	}
	return path, nil
}

// entryBinary hashes the binary and its copy, and copies where that is needed.
func entryBinary(cache string, self *os.File) (string, error) {
	sum, err := hashFile(self)
	if err != nil {
		return "", fmt.Errorf("hash own binary: %w", err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("copy own binary: %w", err)
	}
	path := copyPath(cache, sum)
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

// hashed is what was found the last time, in cache/entry.json.
type hashed struct {
	Name       string // of the copy
	Self, Copy fileState
}

const hashedName = "entry.json"

// fileState changes whenever a file's bytes do.
type fileState struct {
	Dev, Ino    uint64
	Size        int64
	Mode        fs.FileMode
	Change, Mod int64 // ns since 1970
}

func stateOf(info fs.FileInfo, err error) (fileState, error) {
	if err != nil {
		return fileState{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}, fmt.Errorf("%s has no inode", info.Name())
	}
	return fileState{
		Dev: st.Dev, Ino: st.Ino, Size: info.Size(), Mode: info.Mode(),
		Change: st.Ctim.Nano(), Mod: st.Mtim.Nano(),
	}, nil
}

// remembered is the copy of a binary in state self, if neither has changed
// since they were hashed.
func remembered(cache string, self fileState) (string, bool) {
	text, err := os.ReadFile(filepath.Join(cache, hashedName))
	if err != nil {
		return "", false
	}
	var h hashed
	if json.Unmarshal(text, &h) != nil || h.Self != self || !strings.HasPrefix(h.Name, "entry-") || filepath.Base(h.Name) != h.Name {
		return "", false
	}
	path := filepath.Join(cache, h.Name)
	copied, err := stateOf(os.Lstat(path))
	return path, err == nil && copied == h.Copy
}

// remember writes aside and renames, as runs may start side by side.
func remember(cache string, h hashed) {
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(cache, ".entry-*")
	if err != nil {
		return
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if errors.Join(err, tmp.Close()) == nil {
		_ = os.Rename(tmp.Name(), filepath.Join(cache, hashedName))
	}
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
