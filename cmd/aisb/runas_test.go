package main

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "90m": 90 * time.Minute, "2d": 48 * time.Hour, "0": 0, "0d": 0, "1h30m": 90 * time.Minute, "36500d": 36500 * day,
	} {
		if got, err := parseTime(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1s", "-1d", "1", "5x", "36501d", "99999999999d", "1.5d", "1 d"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q: %v", text, got)
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
