package main

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// sizes are those that parseSize reads.
const sizes = "a size from 1m to 1023t"

// limits reads the flags that bound what a sandbox may use. Their grammar is
// aisb's own: podman has several, says of a wrong value only when the container
// starts, and takes a tmpfs of size 0 for one without bound.
func (o runOptions) limits() (podman.Limits, error) {
	for _, f := range []struct {
		flag, value string
		ok          func(string) bool
		what, like  string
		optional    bool
	}{
		{"--pids-limit", o.pids, isCount, "a number of processes up to 4194303", "4096", true},
		{"--memory", o.memory, isSize, sizes, "8g", true},
		{"--cpus", o.cpus, isNumber, "a number of processors from 0.01 to 8192", "1.5", true},
		{"--tmpfs-size", o.tmpfsSize, isSize, sizes, "2g", false},
		{"--min-free", o.minFree, isSize, sizes, "1g", true},
		{"--shm-size", o.shm, isSize, sizes, "512m", false},
	} {
		if f.ok(f.value) || f.optional && (f.value == "" || f.value == "0") { // "" is of no flag and no file
			continue
		}
		hint := fmt.Sprintf("for example %s %s", f.flag, f.like)
		if f.optional {
			hint += "; 0 is no limit"
		}
		return podman.Limits{}, &exitError{code: exitUsage, err: fmt.Errorf("%s %q is not %s", f.flag, f.value, f.what), hint: hint}
	}
	return podman.Limits{Pids: o.pids, Memory: o.memory, CPUs: o.cpus, Shm: o.shm}, nil
}

// enforceable leaves of the limits what this host can hold a sandbox to, and warns
// of the others.
func (p *prepared) enforceable(u *ui, uid int) error {
	limits, missing := p.spec.Limits.Enforceable(podman.Controllers("/", hasSystemd(), uid))
	p.spec.Limits = limits
	for _, m := range missing {
		u.warnf("%s", m)
	}
	var err error
	p.spec.Limits.Core, err = coreLimit()
	return err
}

func isSize(s string) bool {
	_, ok := parseSize(s)
	return ok
}

// parseSize reads what both podman's units and the kernel's memparse (tmpfs(5))
// read alike: a whole number and a letter, in bytes. Less than 1 MiB is a unit
// forgotten.
func parseSize(s string) (uint64, bool) {
	unit := strings.IndexByte("kmgt", strings.ToLower("x" + s)[len(s)]) + 1 // 0 is bytes
	if unit > 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 50-10*unit) // a pebibyte is plenty
	n <<= 10 * unit
	return n, err == nil && n >= 1<<20 && isDigits(s)
}

// isCount accepts a positive number that a pid can have (pid_max in proc(5)).
func isCount(s string) bool {
	n, err := strconv.ParseUint(s, 10, 22)
	return err == nil && n > 0 && isDigits(s)
}

// isNumber accepts a positive number with up to two decimals: the kernel's
// smallest share is a hundredth of a processor (cpu.max, cgroup-v2.rst).
func isNumber(s string) bool {
	whole, part, point := strings.Cut(s, ".")
	n, err := strconv.ParseFloat(s, 64)
	return err == nil && n >= 0.01 && n <= 8192 && isDigits(whole) && (!point || isDigits(part) && len(part) <= 2)
}

// isDigits refuses signs and the underscores of strconv.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// coreLimit is the limit for core files, which would hold the environment.
func coreLimit() (string, error) {
	var own unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &own)
	limit := ""
	if err == nil {
		limit, err = podman.CoreLimit("/", own.Max)
	}
	if err != nil {
		return "", &exitError{code: exitPodman, err: fmt.Errorf("limit core files: %w", err),
			hint: "let the hard limit be 1 or more: see 'hard core' in limits.conf(5), or LimitCORE= of the service"}
	}
	return limit, nil
}
