// Command soak loads a gate with everything that clients do, well or badly, while
// its rules are reloaded, and fails unless sockets, goroutines and memory are in
// the end what they were in the beginning.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

func main() {
	status, inside := ground.Enter()
	if !inside {
		os.Exit(status)
	}
	aisb := flag.String("aisb", "./aisb", "the binary with the gate")
	total := flag.Duration("for", 30*time.Minute, "how long")
	flag.Parse()
	if err := soak(*aisb, *total); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	fmt.Println("soak: everything is back where it was")
}

// gate is the proxy under load.
type gate struct {
	*ground.Process
	port  int
	rules string // file
	out   string // file
}

// Rules between which the gate is switched. The second cuts what goes to the
// origin's web port.
var ruleSets = []string{
	ground.Host + ":*\n*.wild.allowed.test\n",
	ground.Host + ":443\n" + ground.Host + ":8443\n" + ground.Host + ":8444\n",
}

func start(aisb, dir string, port int) (*gate, error) {
	g := &gate{port: port, rules: filepath.Join(dir, fmt.Sprint("rules", port)), out: filepath.Join(dir, fmt.Sprint("log", port))}
	if err := os.WriteFile(g.rules, []byte(ruleSets[0]), 0o600); err != nil {
		return nil, err
	}
	var err error
	g.Process, err = ground.Launch(g.out, aisb, "gate", "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--allow-file", g.rules, "--resolver", ground.DNS)
	if err != nil {
		return nil, err
	}
	return g, g.Listens(port)
}

func soak(aisb string, total time.Duration) error {
	lab, err := ground.Build()
	if err != nil {
		return err
	}
	defer lab.Close()
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	os.Setenv("GOTRACEBACK", "all") // for goroutines
	fresh, err := start(aisb, dir, 3140)
	if err != nil {
		return err
	}
	defer fresh.Stop()
	g, err := start(aisb, dir, 3141)
	if err != nil {
		return err
	}
	defer g.Stop()
	before, err := g.Sockets()
	if err != nil {
		return err
	}
	memory, err := g.load(total)
	if err != nil {
		return err
	}
	return errors.Join(g.back(before), flat(memory), sameGoroutines(fresh, g))
}

// back waits for the sockets of clients that are gone to be closed. The gate
// keeps connections to origins of plain HTTP for a minute.
func (g *gate) back(want int) error {
	got := 0
	for end := time.Now().Add(100 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		var err error
		if got, err = g.Sockets(); err != nil {
			return err
		}
		if got <= want+2 { // netlink and epoll's companions are opened with the first client
			fmt.Printf("soak: sockets %d, in the beginning %d\n", got, want)
			return nil
		}
	}
	return fmt.Errorf("%d sockets are open, %d were in the beginning", got, want)
}

// flat compares the second quarter of the time with the last one, each by its
// greatest value: memory that grows without end grows between these.
func flat(rss []int64) error {
	if len(rss) < 8 {
		return errors.New("too short to say anything of memory: take -for 30s or more")
	}
	quarter := len(rss) / 4
	early, late := slices.Max(rss[quarter:2*quarter]), slices.Max(rss[3*quarter:])
	fmt.Printf("soak: memory %d KiB early, %d KiB late\n", early, late)
	if late > early+early/4+8<<10 {
		return fmt.Errorf("memory grows: %d KiB in the second quarter, %d KiB in the last", early, late)
	}
	return nil
}

// sameGoroutines ends both gates and compares what the runtime says of them.
func sameGoroutines(fresh, used *gate) error {
	n, err1 := fresh.goroutines()
	m, err2 := used.goroutines()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	fmt.Printf("soak: goroutines %d, of a fresh gate %d\n", m, n)
	if m > n+4 { // the garbage collector's workers and the like
		return fmt.Errorf("%d goroutines are left, a fresh gate has %d", m, n)
	}
	return nil
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// goroutines ends the process by SIGQUIT, on which Go's runtime writes them all.
func (g *gate) goroutines() (int, error) {
	if dead := g.Dead(); dead != nil {
		return 0, dead
	}
	g.Signal(syscall.SIGQUIT)
	for end := time.Now().Add(20 * time.Second); g.Dead() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return 0, errors.New("the gate does not end by SIGQUIT")
		}
	}
	text, err := os.ReadFile(g.out)
	n := len(goroutine.FindAll(text, -1))
	if err == nil && n == 0 {
		err = errors.New("the runtime says nothing of goroutines")
	}
	return n, err
}
