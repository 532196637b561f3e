//go:build linux

package main

import (
	"archive/tar"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// starter runs in the guest, as root, when the machine is up.
//
//go:embed start
var starter string

// userID is the guest's ordinary user, whose files the copied ones are.
const userID = 1000

// writeJob writes what a run brings with it, as the tar that the guest reads
// from its second disk.
func writeJob(name string, o options) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = addJob(w, o)
	return errors.Join(err, w.Close(), f.Close())
}

func addJob(w *tar.Writer, o options) error {
	user := "dev"
	if o.root {
		user = "root"
	}
	for _, f := range []struct{ name, text string }{
		{"run/aisb-vm/start", starter},
		{"run/aisb-vm/user", user + "\n"},
		{"run/aisb-vm/command", "exec " + quote(o.argv) + "\n"},
	} {
		head := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.text))}
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			return err
		}
	}
	for _, f := range o.files {
		if err := addTree(w, f); err != nil {
			return fmt.Errorf("--file %s: %w", f.From, err)
		}
	}
	return nil
}

// addTree adds a file or a directory with all that is in it.
func addTree(w *tar.Writer, f file) error {
	return filepath.WalkDir(f.From, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode().Type() == fs.ModeSymlink {
			if link, err = os.Readlink(name); err != nil {
				return err
			}
		}
		head, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(f.From, name)
		if err != nil {
			return err
		}
		head.Name = strings.TrimPrefix(path.Join(f.To, below), "/")
		head.Uid, head.Gid, head.Uname, head.Gname = userID, userID, "", ""
		if err := w.WriteHeader(head); err != nil || !info.Mode().IsRegular() {
			return err
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	})
}

// quote makes words into a line that a shell reads as the same words.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
