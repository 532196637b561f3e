package podman

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// ErrCore reports that cores of the sandbox would reach the host.
var ErrCore = errors.New("your hard limit for core files is 0, and this host hands cores to a program")

// CoreLimit is the limit for core files in a sandbox: they would hold the
// command's environment. It is 1, not 0, since a handler in a pipe is skipped
// for 1 alone (core(5)). Where the user's own hard limit is 0 there is no way to
// 1, and 0 will do unless there is such a handler. root is /.
func CoreLimit(root string, hard uint64) (string, error) {
	if hard > 0 {
		return "1", nil
	}
	pattern, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/core_pattern"))
	if err != nil {
		return "", err
	}
	// @: a socket, since Linux 6.16.
	if strings.HasPrefix(string(pattern), "|") || strings.HasPrefix(string(pattern), "@") {
		return "", ErrCore
	}
	return "0", nil
}

func (l Limits) core() string {
	limit := l.Core
	if limit == "" {
		limit = "1"
	}
	return "core=" + limit + ":" + limit
}
