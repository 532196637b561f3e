//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// storage is podman's, below the home.
const storage = ".local/share/containers/storage"

// lentImages is where a scratch entry sees the images of the lasting home.
const lentImages = "/var/lib/lab-images"

// records is what aisb knows of its images, below the home.
const records = ".local/state/aisb/images"

// storageConf makes podman take images from there too (storage.conf(5)), layers
// with shifted owners included, and write only to the scratch home.
const storageConf = `[storage]
driver = "overlay"

[storage.options]
additionalimagestores = ["` + lentImages + `"]
`

// lendHome gives an entry the user's home: the lasting one for it alone, or one
// of its own. podman takes a runtime directory without its marks for a reboot
// and resets every container's state, so two entries can't share one storage.
func (l *lab) lendHome(e *entry, ord *order, scratch bool) (func(), error) {
	if scratch {
		ord.Home = e.dir + "/home"
		return func() {}, l.scratchHome(ord)
	}
	ord.Home = l.home()
	return lock(filepath.Join(l.dir, "home.lock"), unix.LOCK_EX,
		"another entry of the lab (with --scratch there is no need to)")
}

// scratchHome makes a new user's home. The images of the lasting one can be read
// while another entry changes them: podman's storage locks its files.
func (l *lab) scratchHome(ord *order) error {
	if err := tool("cp", "-a", l.root()+"/etc/skel", ord.Home); err != nil {
		return err
	}
	conf := filepath.Join(ord.Home, ".config/containers")
	images := filepath.Join(l.home(), storage)
	if exists(images + "/overlay-images/images.json") {
		err := errors.Join(os.MkdirAll(conf, 0o700), os.WriteFile(conf+"/storage.conf", []byte(storageConf), 0o600), lendRecords(l.home(), ord.Home))
		if err != nil {
			return err
		}
		ord.Binds = append(ord.Binds, bind{From: images, To: lentImages, ReadOnly: true})
	}
	return tool("chown", "-R", fmt.Sprintf("%d:%d", userID, userID), ord.Home)
}

// lendRecords copies what aisb knows of the images, without which it would build them
// again. What was written by the lab's user leads nowhere else: links aren't followed out
// of the home, and nothing but files is read.
func lendRecords(home, scratch string) error {
	from, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer from.Close()
	list, err := fs.ReadDir(from.FS(), records)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = errors.Join(err, os.MkdirAll(filepath.Join(scratch, records), 0o700))
	for _, e := range list {
		name := filepath.Join(records, e.Name())
		if !e.Type().IsRegular() || filepath.Ext(name) != ".json" {
			continue
		}
		text, readErr := from.ReadFile(name)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue // forgotten just now
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(scratch, name), text, 0o600))
	}
	return err
}
