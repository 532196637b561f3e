//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// storage is podman's, below the home.
const storage = ".local/share/containers/storage"

// lentImages is where a scratch entry sees the images of the lasting home.
const lentImages = "/var/lib/lab-images"

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
		err := errors.Join(os.MkdirAll(conf, 0o700), os.WriteFile(conf+"/storage.conf", []byte(storageConf), 0o600))
		if err != nil {
			return err
		}
		ord.Binds = append(ord.Binds, bind{From: images, To: lentImages, ReadOnly: true})
	}
	return tool("chown", "-R", fmt.Sprintf("%d:%d", userID, userID), ord.Home)
}
