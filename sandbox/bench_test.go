package sandbox

import (
	"os"
	"testing"
)

// BenchmarkEntryBinary is the warm case: the copy is there and is checked.
func BenchmarkEntryBinary(b *testing.B) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	defer self.Close()
	cache := b.TempDir()
	for b.Loop() {
		if _, err := EntryBinary(cache, self); err != nil {
			b.Fatal(err)
		}
	}
}
