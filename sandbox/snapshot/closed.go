package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// ours reports whether a directory belongs to the user. One that its owner may not read
// is one that the agent, who has the same rights, can close and open as it likes: what
// lies in it could be hidden from each look.
func (w *walker) ours(rel string) bool {
	fd, err := open(w.root, rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Getuid()
}
