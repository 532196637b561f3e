package terminal

import (
	"bytes"
	"io"
	"testing"
)

// BenchmarkFilter is for kinds of output: lines of text, text that isn't English,
// an interface that draws itself, and a string without an end.
func BenchmarkFilter(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"text", "func (f *Filter) Write(p []byte) (int, error) { return len(p), nil } // and so on\r\n"},
		{"chinese", "过滤器让已知无害的序列通过，其余的全部丢弃。终端会执行写给它的内容。\r\n"},
		{"colours", "\x1b[2;1H\x1b[38;5;208m 12\x1b[0m \x1b[1mfunc\x1b[22m (f *\x1b[36mFilter\x1b[39m) Write\x1b[K\r\n"},
		{"dropped", "\x1b]52;c;aGVsbG8gd29ybGQhIGhlbGxvIHdvcmxkIQ=="},
	} {
		b.Run(c.name, func(b *testing.B) {
			chunk := bytes.Repeat([]byte(c.line), 64<<10/len(c.line))
			f := New(io.Discard, Options{Answers: true})
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Write(chunk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
