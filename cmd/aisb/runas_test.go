package main

import (
	"errors"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "90m": 90 * time.Minute, "2d": 48 * time.Hour, "0": 0, "0d": 0, "1h30m": 90 * time.Minute, "36500d": 36500 * day, "876000h": 36500 * day, "1.5h": 90 * time.Minute,
	} {
		if got, err := parseTime(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "is not a time", "d": "is not a time", "5x": "is not a time", "1 d": "is not a time", "second": "is not a time", "-": "is not a time",
		"1": "has no unit", "-1s": "is negative", "-1d": "is negative", "1.5d": "is not a whole number of days",
		"36501d": "is longer than 36500d", "99999999999d": "is longer than 36500d", "99999999999999999999999d": "is longer than 36500d",
		"876001h": "is longer than 36500d", "9999999h": "is longer than 36500d", "9999999999999999999h": "is longer than 36500d", "1h99999999999999999999s": "is longer than 36500d",
	} {
		got, err := parseTime(text)
		if wrong, ok := errors.AsType[*valueError](err); !ok || wrong.is != want || wrong.like != timesAre {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", 90 * time.Second: "1m30s", time.Minute: "1m", 2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 30 * day: "30d", 25 * time.Hour: "25h", 0: "0s",
		time.Hour + time.Second: "1h0m1s",
	} {
		if got := timeText(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestRunNames(t *testing.T) {
	for name, want := range map[string]string{"web": "aisb-web", "aisb-web": "aisb-web", "A.b_c-1": "aisb-A.b_c-1"} {
		o := sessionOptions{name: name}
		if err := o.session(); err != nil || o.runName("/x") != want {
			t.Errorf("%q: %q, %v", name, o.runName("/x"), err)
		}
	}
}
