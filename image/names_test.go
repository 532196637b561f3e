package image

import (
	"slices"
	"testing"
)

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
