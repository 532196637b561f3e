//go:build linux

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writeArchive writes files below the directory base. Names, modes and times are
// those given; owner and all else that the machine would add is left out.
func writeArchive(name, base string, files []file, at time.Time) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	w := tar.NewWriter(z)
	return errors.Join(addFiles(w, base, files, at), w.Close(), z.Close(), out.Close())
}

func addFiles(w *tar.Writer, base string, files []file, at time.Time) error {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.tar, b.tar) })
	dirs := map[string]bool{}
	for _, f := range sorted {
		to := path.Join(base, f.tar)
		for _, dir := range parents(to) {
			if dirs[dir] {
				continue
			}
			dirs[dir] = true
			head := tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
			if err := w.WriteHeader(&head); err != nil {
				return err
			}
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		head := tar.Header{Name: to, Mode: int64(f.mode), Size: int64(len(text)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&head); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// parents are the directories above name, the highest first.
func parents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// compress is gzip without a name and a time.
func compress(w io.Writer, text []byte) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(text)
	return errors.Join(err, z.Close())
}

// sums is what sha256sum(1) would print of dir's release.
func sums(dir string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "aisb_*"))
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), filepath.Base(name))
	}
	return lines.String(), nil
}
