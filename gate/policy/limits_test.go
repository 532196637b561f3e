package policy

import (
	"strings"
	"testing"
)

// Of equally specific rules the least budget counts, in whatever order they come:
// one that a preset adds must not lift what was limited.
func TestLeastBudget(t *testing.T) {
	tests := []struct {
		rules, target string
		want          int64
	}{
		{"a.test a.test+upload=1kB", "a.test:443", 1000},
		{"a.test+upload=1kB a.test", "a.test:443", 1000},
		{"a.test+upload=2kB a.test+upload=1kB a.test+upload=3kB", "a.test:443", 1000},
		{"a.test:443+upload=1kB a.test:*+upload=2kB", "a.test:443", 1000},
		{"a.test:443+upload=1kB a.test:*+upload=2kB", "a.test:80", 2000},
		{"*.test+upload=1kB a.test", "a.test:443", 0}, // the most specific rule's
		{"*.test+upload=1kB a.test+upload=2kB", "a.test:443", 2000},
		{"9.9.9.9+upload=1kB 9.9.9.9", "9.9.9.9:443", 1000},
		{"9.9.9.0/24:*+upload=1kB 9.9.9.0/24:443", "9.9.9.9:443", 1000},
		{"host.containers.internal:80+upload=1kB host.containers.internal:80", "host.containers.internal:80", 1000},
		{"*+upload=1kB *", "b.test:443", 1000},
	}
	for _, tt := range tests {
		target, err := ParseAuthority(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		d := mustParse(t, tt.rules, "").Decide(target)
		if !d.Allow || d.Upload != tt.want || d.Rule.Upload != tt.want {
			t.Errorf("%s by %q: %+v, want %d", tt.target, tt.rules, d, tt.want)
		}
	}
	d := mustParse(t, "host.containers.internal:80+private", "").Decide(Target{Host: ServiceHost, Port: 80})
	if d.Reason != HostService || d.Private {
		t.Errorf("a service: %+v", d)
	}
}

// A range that holds a great part of all addresses is worth a warning, one that
// somebody can have is not.
func TestBroadRanges(t *testing.T) {
	for rule, want := range map[string]bool{
		"0.0.0.0/0:*": true, "128.0.0.0/1:443": true, "8.0.0.0/7:443": true, "[::]/0:*": true, "[2000::]/3:443": true, "[2600::]/11:443": true,
		"8.0.0.0/8:443": false, "[2600::]/12:443": false, "[fc00::]/7:443+private": false, "10.0.0.0/8:443+private": false, "9.9.9.9": false,
	} {
		_, warnings, err := Parse([]Line{{Text: rule, Origin: "x:1"}}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(warnings) == 1 && strings.Contains(warnings[0].Text, "great part"); got != want || len(warnings) > 1 {
			t.Errorf("%s: %v, want a warning: %v", rule, warnings, want)
		}
	}
}

// A line that is too long is said to be, with its place.
func TestLongLine(t *testing.T) {
	_, err := ParseLines("rules.txt", strings.NewReader("a.test\n"+strings.Repeat("b", maxLine)+"\n"))
	if err == nil || err.Error() != "rules.txt:2: the line is longer than 4096 bytes" {
		t.Errorf("got %v", err)
	}
}
