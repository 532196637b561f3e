package snapshot

import (
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// kindOf is the kind of an entry of a directory.
func kindOf(fd int, name []byte, kind byte) protect.Kind {
	switch kind {
	case unix.DT_REG:
		return protect.File
	case unix.DT_DIR:
		return protect.Directory
	case unix.DT_LNK:
		return protect.Link
	case unix.DT_UNKNOWN: // the file system doesn't tell
		var st unix.Stat_t
		if unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return kindOfMode(st.Mode)
		}
	}
	return protect.Other
}

func kindOfMode(mode uint32) protect.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return protect.File
	case unix.S_IFDIR:
		return protect.Directory
	case unix.S_IFLNK:
		return protect.Link
	}
	return protect.Other
}

// noLinks resolves below a directory, through no link at all (openat2(2)).
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// open opens rel below a directory.
func open(dir int, rel string, flags uint64) (int, error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: noLinks}
	for {
		fd, err := unix.Openat2(dir, rel, how)
		// EAGAIN: something was renamed meanwhile.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

func openDir(dir int, rel string) (int, error) {
	return open(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY)
}
