package fakes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LockedThreads counts a process's threads, and those with no_new_privs and a filter
// of system calls.
func LockedThreads(pid int) (all, locked int, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("%d has no threads", pid)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, 0, err
		}
		all++
		if strings.Contains(string(text), "\nNoNewPrivs:\t1\n") && strings.Contains(string(text), "\nSeccomp:\t2\n") {
			locked++
		}
	}
	return all, locked, nil
}
