package image

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/newer"
)

// TestRecordsOfOtherFormats: one from before there were formats is read. One of a newer
// aisb is refused, and replaced by a build; what else there is still counts its use.
func TestRecordsOfOtherFormats(t *testing.T) {
	h, err := FindHarness("shell")
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Base: "localhost/base:1", BaseID: strings.Repeat("ab", 32), Harness: h}
	r := Records{Dir: t.TempDir()}
	if err := r.Save(s, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.Dir, s.Key()+".json")
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(now), `"format": 1`) {
		t.Errorf("no format in %s", now)
	}
	old := strings.Replace(string(now), `"format": 1,`, "", 1)
	later := strings.Replace(string(now), `"format": 1`, `"format": 2, "built": {"at": 7}, "tag": "localhost/aisb:later", "x": 1`, 1)
	later = strings.Replace(later, `"tag": "`+s.Tag()+`",`, "", 1)
	for text, want := range map[string]string{old: "found", string(now): "found", later: "newer", `{"format":"x"}`: "none"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := "none"
		_, ok, err := r.Find(Spec{Base: s.Base, Harness: h})
		if _, is := errors.AsType[*newer.Error](err); is {
			got = "newer"
		} else if ok && err == nil {
			got = "found"
		}
		if got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		if all, err := r.All(); want == "newer" && (err != nil || len(all) != 1 || all[0].Tag != "localhost/aisb:later" || all[0].Key != s.Key() || all[0].Used.IsZero()) {
			t.Errorf("all: %+v, %v", all, err)
		}
	}
	if err := r.Save(s, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := r.Find(Spec{Base: s.Base, Harness: h}); !ok || err != nil {
		t.Errorf("after a build: %v, %v", ok, err)
	}
}

// TestNames: which of podman's names are a build's, and which are somebody else's.
func TestNames(t *testing.T) {
	out := []byte(`[{"Id":"0123456789abcdef","Names":["localhost/aisb:1","localhost/mine:2","localhost/aisb-from:3"]},
		{"Id":"0123456789abcdef","Names":["localhost/aisb:1","localhost/mine:2","localhost/aisb-from:3"]},
		{"Id":"fedcba9876543210","Names":null},{"Id":"77","Names":["localhost/aisb-from-here:1"]}]`)
	if got, err := ParseAliases(out); err != nil || !slices.Equal(got, []string{"localhost/aisb-from:3"}) {
		t.Errorf("aliases %q, %v", got, err)
	}
	want := []string{"fedcba987654", "localhost/aisb-from-here:1", "localhost/aisb-from:3", "localhost/mine:2"}
	if got, err := ParseOthers(out); err != nil || !slices.Equal(got, want) {
		t.Errorf("others %q, %v", got, err)
	}
	if _, err := ParseOthers([]byte("Error: x")); err == nil {
		t.Error("no list was parsed")
	}
}
