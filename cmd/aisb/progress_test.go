package main

import (
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
)

// A slow start is laid to a copy of the image only where there can be one: the build of
// aisb's own images makes theirs.
func TestSlowStartText(t *testing.T) {
	records := image.Records{Dir: t.TempDir()}
	built := image.Spec{Base: image.DefaultBase, BaseID: strings.Repeat("1", 64)}
	if err := records.Save(built, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	const prepares, copied = "podman prepares the container", "; an image that is new to it is copied first, once"
	for _, row := range []struct {
		spec sandbox.Spec
		want string
	}{
		{sandbox.Spec{Image: built.Tag()}, prepares},
		{sandbox.Spec{Image: "localhost/mine"}, prepares + copied},
		{sandbox.Spec{Image: built.Tag(), Net: sandbox.NetNoGate}, "names are looked up, then " + prepares},
		{sandbox.Spec{Image: "localhost/mine", Net: sandbox.NetNoGate}, "names are looked up, then " + prepares + copied},
	} {
		if got := slowStartText(row.spec, records); got != row.want {
			t.Errorf("%s: got %q, want %q", row.spec.Image, got, row.want)
		}
	}
}
