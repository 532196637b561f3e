package metrics

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// addProcess adds what dashboards ask of any process, under the names that
// Prometheus' own libraries gave them.
func (m *Metrics) addProcess() {
	gauge := func(name, help string, value func() float64) { m.page.add(name, "gauge", help).value(value) }
	started := float64(time.Now().UnixMilli()) / 1000
	gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", func() float64 { return started })
	m.page.add("process_cpu_seconds_total", "counter", "Time of processors, in the kernel and outside it.").value(cpuSeconds)
	gauge("process_open_fds", "Descriptors that are open.", openFiles)
	gauge("process_max_fds", "Descriptors that can be open.", maxFiles)
	gauge("process_resident_memory_bytes", "Memory that is in use, with the pages of files.", resident)
	m.page.add("go_info", "gauge", "The version of Go; the value is always 1.").
		value(func() float64 { return 1 }, "version", runtime.Version())
	gauge("go_goroutines", "Goroutines.", func() float64 { return float64(runtime.NumGoroutine()) })
	memory := func(read func(*runtime.MemStats) uint64) func() float64 {
		return func() float64 {
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return float64(read(&s))
		}
	}
	gauge("go_memstats_heap_inuse_bytes", "Memory of the heap in use.", memory(func(s *runtime.MemStats) uint64 { return s.HeapInuse }))
	gauge("go_memstats_stack_inuse_bytes", "Memory of stacks.", memory(func(s *runtime.MemStats) uint64 { return s.StackInuse }))
	gauge("go_memstats_sys_bytes", "Memory that Go has from the system.", memory(func(s *runtime.MemStats) uint64 { return s.Sys }))
}

// The values below are 0 where the system doesn't tell.

func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func openFiles() float64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return float64(len(entries) - 1) // without the directory's own
}

func maxFiles() float64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return float64(l.Cur)
}

// resident is the second word of statm, in pages (proc_pid_statm(5)).
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return float64(pages * uint64(os.Getpagesize()))
}
