package terminal

// mode is one that a program may set and reset.
type mode struct {
	private bool
	n       string
	rest    byte // 'h' or 'l': what it is put back to at the end; 0: it is left
	input   bool // it changes what the terminal sends
	reports bool // the terminal sends more than keys, and by itself
}

// modes is the whole list; a mode that isn't here doesn't pass. Each has the
// state that terminals begin with, if that is the same in all. Missing on purpose:
// 2 (VT52 has another syntax), 3 (132 columns), 38 (Tektronix), 46 (xterm writes a
// log file), 1001 (stops the terminal until it is answered), 1034 to 1039 (the
// meta key) and 1042, 1043 (raises the window), 1050 to 1061 (other keyboards),
// 5522 (sends the clipboard at each paste), and of those without ? 2 (locks
// the keyboard), 12 and 20 (echo, newlines).
var modes = [...]mode{
	{n: "4", rest: 'l'}, // insert
	{n: "34"},           // a part of the cursor's visibility in screen
	{private: true, n: "1", rest: 'l', input: true},
	{private: true, n: "4", rest: 'l'},
	{private: true, n: "5", rest: 'l'},
	{private: true, n: "6", rest: 'l'},
	{private: true, n: "7", rest: 'h'},
	{private: true, n: "9", rest: 'l', input: true, reports: true},
	{private: true, n: "12", rest: 'l'},
	{private: true, n: "25", rest: 'h'},
	{private: true, n: "45", rest: 'l'},
	{private: true, n: "47", rest: 'l'},
	{private: true, n: "66", rest: 'l', input: true},
	{private: true, n: "69", rest: 'l'},
	{private: true, n: "1000", rest: 'l', input: true, reports: true},
	{private: true, n: "1002", rest: 'l', input: true, reports: true},
	{private: true, n: "1003", rest: 'l', input: true, reports: true},
	{private: true, n: "1004", rest: 'l', input: true, reports: true},
	{private: true, n: "1005", rest: 'l', input: true},
	{private: true, n: "1006", rest: 'l', input: true},
	{private: true, n: "1007", input: true}, // the wheel as arrow keys: on in some, off in others
	{private: true, n: "1015", rest: 'l', input: true},
	{private: true, n: "1016", rest: 'l', input: true},
	{private: true, n: "1047", rest: 'l'},
	{private: true, n: "1048"},
	{private: true, n: "1049", rest: 'l'},
	{private: true, n: "2004", rest: 'l', input: true},
	{private: true, n: "2026", rest: 'l'},
	{private: true, n: "2027"}, // widths by grapheme cluster: on in some, off in others
	{private: true, n: "2031", rest: 'l', input: true, reports: true},
	{private: true, n: "2048", rest: 'l', input: true, reports: true},
	{private: true, n: "7727", rest: 'l', input: true}, // mintty's Escape key, which tmux wants
	{private: true, n: "9001", rest: 'l', input: true, reports: true},
}

// modeOf is the index of a mode in the table, or -1.
func modeOf(private bool, n string) int {
	for i := range modes {
		if modes[i].n == n && modes[i].private == private {
			return i
		}
	}
	return -1
}
