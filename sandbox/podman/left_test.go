package podman

import (
	"slices"
	"testing"
)

func TestParseLeft(t *testing.T) {
	out := `[{"Id":"1","Names":["aisb-x"],"Labels":{"dev.aisb.container":"aisb-x"}},
		{"Id":"2","Names":["mine"],"Labels":{"dev.aisb.container":"aisb-x","a":"b"}},
		{"Id":"3","Names":["aisb-y"],"Labels":null},
		{"Id":"4","Names":["quirky_name"],"Labels":{"dev.aisb.container":"build"}}]`
	got, err := ParseLeft([]byte(out))
	if err != nil || !slices.Equal(got, []Left{{"1", "aisb-x"}, {"4", "quirky_name"}}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseLeft([]byte("[]")); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseLeft([]byte("Error: x")); err == nil {
		t.Error("no list was parsed")
	}
}
