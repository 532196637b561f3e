package fdmsg

import "os"

// descriptor is the number of an open file, which the caller keeps open. File.Fd would
// make it block, for all processes that have it: a gate that has begun to accept on a
// listener would then wait for a client and for nothing else.
func descriptor(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	number := -1
	err = raw.Control(func(fd uintptr) { number = int(fd) })
	return number, err
}
