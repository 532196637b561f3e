package newer

import (
	"errors"
	"testing"
)

func TestCheck(t *testing.T) {
	for format, ok := range map[int]bool{-1: false, 0: true, 1: true, 2: true, 3: false} {
		err := Check("/x/y", format, 2)
		if e, is := errors.AsType[*Error](err); ok != (err == nil) || is == ok || is && (e.Path != "/x/y" || e.Format != format || e.Known != 2) {
			t.Errorf("format %d: %v", format, err)
		}
	}
	const want = `"/x/y" was written by a newer aisb, in format 3; this one knows formats up to 2`
	if got := Check("/x/y", 3, 2).Error(); got != want {
		t.Errorf("got %s", got)
	}
}
