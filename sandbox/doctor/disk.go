package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// What a disk should have free. A build of the default image takes about 1 GB
// for the image and as much again while it runs (docs/images.md).
const (
	leastFree = 64 << 20
	someFree  = 1 << 30
	buildFree = 3 << 30
)

// networkTypes are file systems whose files are on another machine, or in a
// program that may hang.
var networkTypes = []string{"nfs", "cifs", "smb2", "9p", "afs", "ceph", "fuse", "gfs2", "ocfs2", "lustre", "gpfs"}

func (p Place) network() bool { return slices.Contains(networkTypes, p.Type) }

func judgeHome(f Facts) result {
	p := f.Home
	switch {
	case p.Err != "":
		return fail("let HOME name your home directory", "%s", p.Err)
	case p.network():
		return unknown("work in a directory on a local disk if something is odd", "it is on %s, which aisb is not tested with", p.Type)
	}
	return p.room("free some disk space", leastFree, someFree)
}

func judgeStateDir(f Facts) result { return judgeOwn(f.State, "XDG_STATE_HOME", false) }

// judgeCacheDir: the copy of aisb that the container starts lies there, and a
// bind mount of it can't be executed if the file system says noexec (mount(2)).
func judgeCacheDir(f Facts) result { return judgeOwn(f.Cache, "XDG_CACHE_HOME", true) }

func judgeOwn(p Place, variable string, execute bool) result {
	move := fmt.Sprintf("let %s name a directory on a local disk", variable)
	switch {
	case p.Err != "":
		return fail("let HOME name your home directory", "%s", p.Err)
	case p.ReadOnly || !p.Writable:
		return fail(move+" that you can write to", "%s can't be written to", p.Path)
	case execute && p.NoExec:
		return fail(move+" without noexec", "%s is on a file system with noexec, and the container starts aisb from there", p.Path)
	case p.network():
		return unknown(move, "%s is on %s, which aisb is not tested with", p.Path, p.Type)
	}
	return p.room("free some disk space", leastFree, leastFree)
}

func judgeGraphRoot(f Facts) result {
	p := f.Graph
	const move = "let 'graphroot' in ~/.config/containers/storage.conf name a directory on a local disk"
	switch {
	case p.Path == "" && p.Err == "":
		return unknown("", "podman info would tell where it is")
	case p.Err != "":
		return unknown("", "%s", p.Err)
	case p.NoExec:
		return fail(move+" without noexec", "%s is on a file system with noexec: no program of an image can start", p.Path)
	case p.ReadOnly || !p.Writable:
		return fail(move, "%s can't be written to", p.Path)
	case p.network():
		// Files there get owners that the server won't set (containers-storage.conf(5)).
		return unknown(move, "%s is on %s, which podman doesn't support for images", p.Path, p.Type)
	}
	need := uint64(someFree)
	if f.Image.Tag == "" {
		need = buildFree
	}
	return p.room("podman system prune, aisb image prune", leastFree, need)
}

// room judges what is free.
func (p Place) room(free string, least, some uint64) result {
	text := fmt.Sprintf("%s free on %s", size(p.Free), p.Type)
	switch {
	case p.Free < least:
		return fail(free, "only %s", text)
	case p.Free < some:
		return note(free, "only %s", text)
	}
	return ok("%s", text)
}

func size(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// fsTypes are the numbers of statfs(2), as linux/magic.h and the file systems'
// own sources have them.
var fsTypes = map[uint32]string{
	0xef53: "ext4", 0x9123683e: "btrfs", 0x58465342: "xfs", 0x01021994: "tmpfs", 0x794c7630: "overlay",
	0x2fc12fc1: "zfs", 0xf2f52010: "f2fs", 0xf15f: "ecryptfs", 0xca451a4e: "bcachefs", 0x858458f6: "ramfs",
	0x6969: "nfs", 0xff534d42: "cifs", 0xfe534d42: "smb2", 0x01021997: "9p", 0x5346414f: "afs", 0x00c36400: "ceph",
	0x65735546: "fuse", 0x01161970: "gfs2", 0x7461636f: "ocfs2", 0x0bd00bd0: "lustre", 0x47504653: "gpfs",
	0x63677270: "cgroup2", 0x27e0eb: "cgroup",
}

func fsType(magic uint32) string {
	if t := fsTypes[magic]; t != "" {
		return t
	}
	return strings.ToLower(fmt.Sprintf("type %#x", magic))
}
