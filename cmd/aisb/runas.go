package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
)

// exitTimeout is the status of a run that --timeout has ended: that of timeout(1).
const exitTimeout = 124

// sessionOptions are the flags about the run as such.
type sessionOptions struct {
	name    string
	timeout time.Duration
}

func (o *sessionOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", "", "call the sandbox and its log aisb-`NAME`")
	f.Var((*timeValue)(&o.timeout), "timeout", "end it after `TIME`, like 30m, with status 124")
}

// namePrefix is what all names of runs begin with: containers and directories of
// ours never meet others of the user's.
const namePrefix = "aisb-"

// maxRunName is what a host name may have (RFC 1035, section 2.3.4), and leaves room
// in a table.
const maxRunName = 63

// session checks the flags.
func (o sessionOptions) session() error {
	if o.name == "" {
		return nil
	}
	if name := o.runName(""); len(name) > maxRunName || !regexp.MustCompile(`^aisb-[a-zA-Z0-9][a-zA-Z0-9_.-]*$`).MatchString(name) {
		return &exitError{code: exitUsage, err: fmt.Errorf("--name %q is no name for a sandbox", o.name),
			hint: fmt.Sprintf("up to %d letters and digits, and after the first of them _ . -", maxRunName-len(namePrefix))}
	}
	return nil
}

// runName is the name of a run in dir.
func (o sessionOptions) runName(dir string) string {
	if o.name == "" {
		return sandbox.RunName(dir)
	}
	return namePrefix + strings.TrimPrefix(o.name, namePrefix)
}

// timeLimit ends a run that takes too long. nil is none.
type timeLimit struct {
	after time.Duration
	timer *time.Timer
	over  atomic.Bool
}

// limit begins to count. The command gets SIGTERM first, as by 'aisb stop'.
func (o sessionOptions) limit(s *sandbox.Session) *timeLimit {
	if o.timeout == 0 {
		return nil
	}
	l := &timeLimit{after: o.timeout}
	l.timer = time.AfterFunc(time.Until(s.Started().Add(o.timeout)), func() {
		select {
		case <-s.Ended():
			return // by itself, just before
		default:
		}
		l.over.Store(true)
		s.Stop(stopGrace)
	})
	return l
}

// ended is the error of a run that was ended by its limit, whatever status its
// command then had.
func (l *timeLimit) ended() error {
	if l == nil {
		return nil
	}
	l.timer.Stop()
	if !l.over.Load() {
		return nil
	}
	return &exitError{code: exitTimeout, err: fmt.Errorf("ended after %s, as --timeout says", timeText(l.after))}
}

// timeValue is a flag's time: that of Go, and days. It is never negative.
type timeValue time.Duration

// Set reads 90s, 30m, 12h or 7d.
func (v *timeValue) Set(text string) error {
	d, err := parseTime(text)
	*v = timeValue(d)
	return err
}

func (v *timeValue) String() string {
	if *v == 0 {
		return ""
	}
	return timeText(time.Duration(*v))
}

// Type is what cobra shows where a flag names no other.
func (v *timeValue) Type() string { return "TIME" }

const day = 24 * time.Hour

// longest is the longest time that a flag takes: a hundred years.
const longest = 36500 * day

const timesAre = "a time is written as 30s, 15m, 12h or 7d, and is at most 36500d"

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	days, inDays := strings.CutSuffix(text, "d")
	if inDays && isDigits(days) {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err == nil && 0 <= d && d <= longest {
		return d, nil
	}
	is := "is not a time"
	switch positive, negative := strings.CutPrefix(text, "-"); {
	case negative && someTime().MatchString(positive):
		is = "is negative"
	case someTime().MatchString(text): // that has no room in a Duration, too
		is = "is longer than " + timeText(longest)
	case isDigits(text):
		is = "has no unit"
	case inDays && strings.Trim(days, "0123456789.") == "" && days != "":
		is = "is not a whole number of days"
	}
	return 0, &valueError{is: is, like: timesAre}
}

// someTime is a time of any length, in days or as Go writes it.
var someTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+d|\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`)
})

// timeText writes a time as a user would.
func timeText(d time.Duration) string {
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok {
			text = cut + zero[:1]
		}
	}
	return text
}
