package environ

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	for _, row := range []struct{ name, file, want string }{
		{"empty", "", ""},
		{"podman's forms", "# c\n\nA=1\n  # c\nB=\nSET\n  C=x\n", "[A=1][B=][SET=from the host][C=x]"},
		{"the rest of the line", "A= a # b \"c\" 'd' = $HOME \\n \n", "[A= a # b \"c\" 'd' = $HOME \\n ]"},
		{"no line end", "A=1", "[A=1]"},
		{"carriage returns", "A=1\r\n\r\n# c\r\nB=\"x\"\r\nSET\r\n", "[A=1][B=x][SET=from the host]"},
		{"double quotes", `A="x \"y\" \\ \$ # '` + "\\n\\t\\r\"\n", "[A=x \"y\" \\ $ # '\n\t\r]"},
		{"single quotes", `A='x "y" \n $z'` + "\n", `[A=x "y" \n $z]`},
		{"many lines", "A=\"-----BEGIN\na=b\n# no comment\n-----END\"\nB='1\n2\n'\nC=3", "[A=-----BEGIN\na=b\n# no comment\n-----END][B=1\n2\n][C=3]"},
		{"empty quotes", "A=\"\"\nB=''", "[A=][B=]"},
		{"spaces after a quote", "A=\"x\" \t\nB=1", "[A=x][B=1]"},
		{"a carriage return in quotes is kept", "A=\"1\r\n2\"", "[A=1\r\n2]"},
		{"export", "export A=1\nexport  B='x'\nexport SET\nexportC=1", "[A=1][B=x][SET=from the host][exportC=1]"},
		{"any byte", "A=\xff\x01ż\n", "[A=\xff\x01ż]"},
		{"byte order mark", "\xef\xbb\xbfA=1", "[A=1]"},
		{"a quote later on", "A=x\"y\nB=1", "[A=x\"y][B=1]"},
		{"spaces before a quote are text", "A= \"x\"", "[A= \"x\"]"},
		{"the same twice", "A=1\nA=2", "[A=1][A=2]"},
		{"indented and quoted", "  A=\"x=\ny\"\n", "[A=x=\ny]"},
	} {
		got, err := ParseFile("f", []byte(row.file), host)
		if err != nil || text(got) != row.want {
			t.Errorf("%s: got %q, %v, want %q", row.name, text(got), err, row.want)
		}
	}
}

func TestParseFileErrors(t *testing.T) {
	for _, row := range []struct{ file, want string }{
		{"A=1\nUNSET\n", `dir/e.env:2: "UNSET" is not set on the host`},
		{"\n\n=secret\n", "dir/e.env:3: a variable without a name"},
		{"A =secret", `dir/e.env:1: white space or a control character in a variable's name, after "A"`},
		{"secret text", `dir/e.env:1: white space or a control character in a variable's name, after "secret"`},
		{"A=\"1\n2\n\nB=2", "dir/e.env:1: the quote is never closed"},
		{"# c\nA='secret", "dir/e.env:2: the quote is never closed"},
		{"A=\"\n\n\" secret\n", "dir/e.env:3: text after the closing quote"},
		{"A=\"1\n\\q\"", "dir/e.env:2: unknown escape in a quoted value"},
		{"A=\"1\\", "dir/e.env:1: the quote is never closed"},
		{"A=\"1\n2\"\nB=\x00", `dir/e.env:3: the value of "B" holds a NUL byte`},
		{"A=1\nB='\x00'", `dir/e.env:2: the value of "B" holds a NUL byte`},
		{"\xff\xfeA\x00=\x001\x00", "dir/e.env:1: the file is UTF-16"},
		{"export =1", "dir/e.env:1: a variable without a name"},
		{"A=\"1\\\n2\"", "dir/e.env:1: unknown escape in a quoted value"},
	} {
		got, err := ParseFile("dir/e.env", []byte(row.file), host)
		if err == nil || err.Error() != row.want || got != nil {
			t.Errorf("%q: got %q, %v, want %s", row.file, text(got), err, row.want)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%q: no hint", row.file)
		}
	}
}

// FuzzParseFile: what quoting writes reading gives back, and no input at all
// makes a variable that Merge refuses.
func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"A=1\n", "A=\"x\\n\"\nB='y'\n", "SET", "a\r\n\"'\\$=#", "export A=1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if vars, err := ParseFile("f", data, host); err == nil {
			if _, _, err := Merge(vars); err != nil {
				t.Errorf("%q: %v", data, err)
			}
		} else if !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: error %q names no line", data, err)
		} else if n, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "f:"), ":"); !validLine(n, data) {
			t.Errorf("%q: error %q names no line of it", data, err)
		}
		value := strings.ReplaceAll(string(data), "\x00", "")
		quoted := "A=\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + "\"\nB=1"
		vars, err := ParseFile("f", []byte(quoted), host)
		if err != nil || len(vars) != 2 || string(vars[0].Value) != value {
			t.Errorf("%q: got %q, %v", quoted, text(vars), err)
		}
	})
}

func validLine(n string, data []byte) bool {
	line, err := strconv.Atoi(n)
	return err == nil && line >= 1 && line <= 1+strings.Count(string(data), "\n")
}
