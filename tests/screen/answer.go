package screen

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Name is what the terminal calls itself. Programs know it for one that can do much.
const Name = "ghostty 1.2.0"

// later are modes that the emulator has no use for and terminals of today have.
var later = []int{2026, 2027, 2031, 2048, 1016}

// answer adds the answers that the emulator doesn't have. The last that is registered
// is asked first, and the emulator's own if that returns false.
func (s *Screen) answer() {
	say := func(format string, args ...any) bool {
		fmt.Fprintf(s.vt.InputPipe(), format, args...)
		return true
	}
	on := func(prefix, between, final byte, f func(n int) bool) {
		s.vt.RegisterCsiHandler(ansi.Command(prefix, between, final), func(params ansi.Params) bool {
			n, _, _ := params.Param(0, 0)
			return f(n)
		})
	}
	on('>', 0, 'q', func(int) bool { return say("\x1bP>|%s\x1b\\", Name) })
	on('?', 0, 'u', func(int) bool { return say("\x1b[?%du", min(s.keys, 1)) })
	on('>', 0, 'u', func(int) bool { s.keys++; return true })
	on('<', 0, 'u', func(n int) bool { s.keys = max(0, s.keys-max(n, 1)); return true })
	on(0, 0, 'n', func(n int) bool { return n == 5 && say("\x1b[0n") }) // the emulator's has a ? too many
	on('?', 0, 'n', func(n int) bool { return n == 996 && say("\x1b[?997;1n") })
	on('?', '$', 'p', func(n int) bool { return slices.Contains(later, n) && say("\x1b[?%d;2$y", n) })
	on(0, 0, 't', func(n int) bool {
		rows, cols := s.vt.Height(), s.vt.Width()
		switch n {
		case 14:
			return say("\x1b[4;%d;%dt", 16*rows, 8*cols)
		case 16:
			return say("\x1b[6;16;8t")
		case 18:
			return say("\x1b[8;%d;%dt", rows, cols)
		}
		return true
	})
	s.vt.RegisterOscHandler(4, func(data []byte) bool {
		fields := strings.Split(string(data), ";")
		for i := 1; i+1 < len(fields); i += 2 {
			if n, err := strconv.Atoi(fields[i]); err == nil && n < 256 && fields[i+1] == "?" {
				say("\x1b]4;%d;rgb:%02x/%02x/%02x\x1b\\", n, n, n, n)
			}
		}
		return true
	})
}

// Discard reads the answers of a screen that nobody asks, until its Close.
func (s *Screen) Discard() { io.Copy(io.Discard, s) }
