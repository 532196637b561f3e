package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// clocks are the functions of gate and sandbox that ask what time of day it is, or make a time that is
// compared by that, each with the reason why nothing is decided by it. A time of
// time.Now that was left as it is measures by the clock that never jumps (package time,
// "Monotonic Clocks"), and so do deadlines, timers and contexts.
var clocks = map[string]string{
	"gate/log.go encodeTime":             "written down",
	"gate/metrics/process.go addProcess": "written down",
	"gate/resolve/conf.go get":           "of a file: only whether it is another than before",
	"sandbox/home/home.go ParseVolumes":  "shown",
	"sandbox/home/look.go add":           "of a file: only whether it is another than before",
	"sandbox/home/record.go LastUse":     "how old a home is, which a user is asked about",
	"sandbox/home/record.go Note":        "no time: the length of a file",
	"sandbox/oldruns.go look":            "how old a log is",
	"sandbox/oldruns.go setAside":        "part of a name",
	"sandbox/prune.go list":              "the order of logs",
	"sandbox/prune.go prune":             "how old logs and copies are; what is in use is held by a lock",
	"sandbox/prune.go pruneDead":         "how old a dead run's directory is; what is in use is held by a lock",
	"sandbox/record.go keepProof":        "written down",
	"sandbox/trust/store.go Approve":     "written down",
}

// wallClock are the methods of a time that drop the clock that never jumps, or show
// that of the day.
var wallClock = []string{"UTC", "Local", "Truncate", "Unix", "UnixMilli", "UnixMicro", "UnixNano", "ModTime", "AddDate"}

// walls are the functions of a file that use one of them.
func walls(f file) []string {
	var list []string
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains(wallClock, sel.Sel.Name) && !fixed(call) {
				list = append(list, f.path+" "+fn.Name.Name)
			}
			return true
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// fixed reports whether a call makes a time of numbers alone: a deadline long past.
func fixed(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if _, ok := a.(*ast.BasicLit); !ok {
			return false
		}
	}
	return len(call.Args) > 0
}

// TestWallClock: a clock that jumps, by a correction or a resume, changes what is written
// down and how old things are taken to be, and nothing else: whatever asks for the time of
// day is in the table.
func TestWallClock(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test() || !strings.HasPrefix(f.path, "gate/") && !strings.HasPrefix(f.path, "sandbox/") {
			continue // the others show and list
		}
		for _, at := range walls(f) {
			used[at] = true
			if clocks[at] == "" {
				t.Errorf("%s asks for the time of day: say in clocks why nothing is decided by it", at)
			}
		}
	}
	for at := range clocks {
		if !used[at] {
			t.Errorf("%s asks for no time of day any more", at)
		}
	}
}

// The search finds what it is for.
func TestWallClockBites(t *testing.T) {
	for text, want := range map[string]int{
		"func f() bool { return time.Now().Unix() > 7 }":              1,
		"func f() bool { return time.Now().UTC().After(t) }":          1,
		"func f(i fs.FileInfo) bool { return i.ModTime().Before(t) }": 1,
		"func f() { c.SetDeadline(time.Unix(1, 0)) }":                 0,
		"func f() bool { return time.Since(begin) > time.Minute }":    0,
	} {
		f, err := parse("x.go", "package x\n\n"+text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := walls(f); len(got) != want {
			t.Errorf("%s: %s", text, fmt.Sprint(got))
		}
	}
}
