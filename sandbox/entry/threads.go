package entry

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Threads of pid 1 while the command runs. The runtime ends a program for which the
// kernel has no new thread (newosproc in runtime/os_linux.go), and with pid 1 would end
// the sandbox: for a build that runs away into the limit of processes, at the very
// moment at which the user asks for a shell to see what is the matter.
const (
	// busyThreads run at once. pid 1 has little to do, on many processors too.
	busyThreads = 2
	// spareThreads are more than can wait for the kernel besides: aisb has 16 requests
	// for commands under way at most, and two always wait, for children and for signals.
	spareThreads = 24
	// threadsAfter is when they are made: a command that ends at once needs none, and
	// the making would hold it up. To fill the limit of processes takes longer.
	threadsAfter = 50 * time.Millisecond
	// roomForSpare is the limit of processes from which on these are no great part of it.
	roomForSpare = 256
)

// oneThread has the start done by one thread at a time. It does one thing after the
// other, and each thread more would have to be made, to give everything up and to
// be asked whether it has.
func oneThread() { runtime.GOMAXPROCS(1) }

// keepThreads makes the threads that pid 1 may need, as threads once made stay. It comes
// after the drop: who is made then has nothing to give up.
func keepThreads() {
	runtime.GOMAXPROCS(min(busyThreads, runtime.NumCPU()))
	text, err := os.ReadFile("/sys/fs/cgroup/pids.max") // "max", or not there, where there is no limit
	if limit, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && limit < roomForSpare {
		return
	}
	var ready, gone sync.WaitGroup
	enough := make(chan struct{})
	for range spareThreads {
		ready.Add(1)
		gone.Go(func() {
			runtime.LockOSThread() // one thread each, as long as all wait
			defer runtime.UnlockOSThread()
			ready.Done()
			<-enough
		})
	}
	ready.Wait()
	close(enough)
	gone.Wait()
	// A thread on which a goroutine that holds it must wait has another one made by a
	// third (newm in runtime/proc.go), whenever that comes to it. To stop the world is to
	// wait for that: the new thread has a processor assigned.
	var barrier runtime.MemStats
	runtime.ReadMemStats(&barrier)
}
