package mounts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listeningPaths reads the absolute paths of listening sockets off the kernel
// (proc_net_unix(5)). A missing file is an error: nothing could be told.
func listeningPaths() ([]string, error) {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	return parseListening(string(b)), nil
}

// parseListening keeps lines whose flags hold __SO_ACCEPTCON (0x10000):
// "Num RefCount Protocol Flags Type St Inode Path".
func parseListening(table string) []string {
	var paths []string
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		flags, err := strconv.ParseUint(fields[3], 16, 64)
		if err != nil || flags&0x10000 == 0 {
			continue
		}
		// The path is the rest of the line, spaces included.
		if i := strings.Index(line, " /"); i >= 0 {
			paths = append(paths, filepath.Clean(line[i+1:]))
		}
	}
	return paths
}
