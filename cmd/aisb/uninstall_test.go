package main

import (
	"os"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/home"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// TestPlacesAreTold: docs/upgrade.md names every place in which aisb keeps something, every
// label by which it goes, and what can be kept.
func TestPlacesAreTold(t *testing.T) {
	text, err := os.ReadFile("../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := sandbox.Paths{Runtime: "$XDG_RUNTIME_DIR/aisb", State: "$XDG_STATE_HOME/aisb", Cache: "$XDG_CACHE_HOME/aisb"}
	want := []string{"`" + image.Repository + ":*`", "`" + image.LabelFormat + "`", "`" + home.Label + "`", "`" + podman.Label + "`", "`$XDG_CONFIG_HOME/aisb`"}
	for _, p := range paths.Places() {
		want = append(want, "`"+p.Path+"`")
		if _, ok := placeKinds[p.Kind]; !ok {
			t.Errorf("what lies in %s has no name", p.Path)
		}
	}
	for _, prefix := range tempNames {
		want = append(want, "`$TMPDIR/"+prefix+"*`")
	}
	for _, k := range keepable {
		want = append(want, "--keep "+k.name)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("docs/upgrade.md lacks %s", w)
		}
	}
}

// TestBuildLabel: the containers of builds are found by the label of all containers.
func TestBuildLabel(t *testing.T) {
	want := "--label=" + podman.Label + "=" + podman.BuildLabel
	for what, args := range map[string][]string{"warm": image.WarmArgs("x"), "sources": image.SourcesArgs("x")} {
		if !strings.Contains(strings.Join(args, " "), want+" ") {
			t.Errorf("%s: %q lacks %s", what, args, want)
		}
	}
}
