package protect

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var configs = []struct {
	text string
	want string // key=value, one a line
	bad  bool
}{
	{text: "", want: ""},
	{text: "[core]\n\teditor = vim\n", want: "core.editor=vim"},
	{text: "\ufeff[Core]\r\n\tBare = false\r\n\tfileMode\r\n", want: "core.bare=false core.filemode=true"},
	{text: "[core] hooksPath=a b ; comment\n", want: "core.hookspath=a b"},
	{text: "[a] b = \"x ; y\" # c\n", want: "a.b=x ; y"},
	{text: "[a] b = x\\\n y\n c = d", want: "a.b=x y a.c=d"},
	{text: `[a] b = "q\"\\\tz"`, want: "a.b=q\"\\\tz"},
	{text: "[filter \"my lfs\"]\n clean = x %f\n", want: "filter.my lfs.clean=x %f"},
	{text: "[remote \"a\\\"]\\\\b\"]\nurl = u\n", want: "remote.a\"]\\b.url=u"},
	{text: "[branch.Main] merge = m\n", want: "branch.main.merge=m"},
	{text: "[filter.a \"B\"]\n clean = x\n[alias.x]\ny = !z\n", want: "filter.a.B.clean=x alias.x.y=!z"},
	{text: "[include\r\"x\"]\n path = y\n", want: "include.x.path=y"},
	{text: "[a] b = x\x00[junk\n[core] c = d\n# \x00\n", want: "a.b=x core.c=d"},
	{text: "[a] b\x00\n", bad: true},
	{text: "[a \"b\\", bad: true},
	{text: "; only\n# comments\n[a]\n", want: ""},
	{text: "[a] b = \"  x  \"  \n", want: "a.b=  x  "},
	{text: "[a] b = x\t\n[a] c =\n", want: "a.b=x a.c="},
	{text: "[a]\n b # yes\n", bad: true},
	{text: "[a] b = \"open\n", bad: true},
	{text: "[a\nb = c\n", bad: true},
	{text: "[a \"b]\n", bad: true},
	{text: "a = b\n[a] b = c\n", want: "a.b=c"},
	{text: "[a] b = \\q\n", bad: true},
	{text: "[a] b c\n", bad: true},
	{text: "[a] one = 1\n]", want: "a.one=1", bad: true},
	// What one program refuses another may read.
	{text: "[a] b = \"open\n[core] pager = x\n", want: "core.pager=x", bad: true},
	{text: "[a\nx = y\n[core] pager = x\n", want: "core.pager=x", bad: true},
	{text: "?\n[core] pager = x\n", want: "core.pager=x", bad: true},
	// Each of these git takes.
	{text: "[filter.a \"b\"] clean = x\n", want: "filter.a.b.clean=x"},
	{text: "[filter\r\"b\"] clean = x\n", want: "filter.b.clean=x"},
	{text: "[a \"x\x00\"]\n[core] pager = x\n", want: "core.pager=x"},
	{text: "[a] b = x\x00 ]\n c = d\n", want: "a.b=x a.c=d"},
	{text: "[alias] x = \r!sh\n y = \"\" !sh\n", want: "alias.x=!sh alias.y=!sh"},
	{text: "[a] b = x \\\n\n[a] c = \"\"\n", want: "a.b=x  a.c="},
	{text: "[a] b = x \\", want: "a.b=x "},
}

func text(list []Setting) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Key()+"="+s.Value)
	}
	return strings.Join(out, " ")
}

func TestParseGitConfig(t *testing.T) {
	for _, row := range configs {
		got, err := ParseGitConfig(row.text)
		if text(got) != row.want || (err != nil) != row.bad {
			t.Errorf("%q: %q, %v, want %q", row.text, text(got), err, row.want)
		}
	}
}

// git reads the same.
func TestParseLikeGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed to compare with")
	}
	for _, row := range configs {
		cmd := exec.Command("git", "config", "--file", "-", "--list", "-z")
		cmd.Stdin = strings.NewReader(row.text)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=/usr/bin:/bin"}
		out, err := cmd.Output()
		if (err != nil) != row.bad {
			t.Errorf("%q: git says %v", row.text, err)
		}
		if row.bad {
			continue
		}
		var list []string
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if !strings.Contains(entry, ".") {
				continue // none, or one before any section
			}
			key, value, ok := strings.Cut(entry, "\n")
			if !ok {
				value = "true"
			}
			list = append(list, key+"="+value)
		}
		if got := strings.Join(list, " "); got != row.want {
			t.Errorf("%q: git reads %q, want %q", row.text, got, row.want)
		}
	}
}

func TestExecutes(t *testing.T) {
	settings, err := ParseGitConfig(`[core]
	hooksPath = .githooks
	bare = false
	fsmonitor = ./tools/watch
	sshCommand = ssh -F ./ssh/config
[include]
	path = ../shared.gitconfig
[includeIf "gitdir:~/x/"]
	path = /etc/x
[filter "a.b"]
	clean = sh scripts/clean.sh %f
	required = true
[diff "x"]
	textconv = "python3 'tools/text conv.py'"
[merge "m"]
	driver = tools/merge %O %A
	name = m
[alias]
	st = status
	up = "!f() { ./scripts/up.sh \"$@\"; }; f"
[credential "https://example.com"]
	helper = store
[remote "origin"]
	url = https://example.com/x.git
[remote "evil"]
	url = ext::sh -c x
[branch "main"]
	remote = origin
`)
	if err != nil {
		t.Fatal(err)
	}
	keys := NewlyExecutes(nil, settings)
	want := []string{"core.hookspath", "core.fsmonitor", "core.sshcommand", "include.path", "includeif.gitdir:~/x/.path", "filter.a.b.clean",
		"diff.x.textconv", "merge.m.driver", "alias.up", "credential.https://example.com.helper", "remote.evil.url"}
	if !slices.Equal(keys, want) {
		t.Errorf("got  %q\nwant %q", keys, want)
	}
	var named []string
	for _, n := range NamedPaths(settings, "/home/u") {
		switch {
		case n.Dir:
			named = append(named, "dir "+n.Path)
		case n.Include:
			named = append(named, "include "+n.Path)
		case strings.Contains(n.Path, "/"):
			named = append(named, n.Path)
		}
	}
	want = []string{"dir .githooks", "tools/watch", "ssh/config", "include ../shared.gitconfig", "include /etc/x", "scripts/clean.sh", "tools/text", "tools/merge", "scripts/up.sh"}
	if !slices.Equal(named, want) {
		t.Errorf("got  %q\nwant %q", named, want)
	}
	now := append(slices.Clone(settings), Setting{Section: "core", Name: "pager", Value: "x"}, Setting{Section: "user", Name: "name", Value: "n"})
	now[0].Value = "elsewhere"
	if got := NewlyExecutes(settings, now); !slices.Equal(got, []string{"core.hookspath", "core.pager"}) {
		t.Errorf("newly: %q", got)
	}
	if got := NewlyExecutes(settings, settings); got != nil {
		t.Errorf("newly: %q", got)
	}
	// However a section is written, and of both of a name with "=" in it.
	for text, want := range map[string]string{
		"[filter.a \"b\"] clean = x": "filter.a.b.clean", "[filter.a.b] clean = x": "filter.a.b.clean", "[filter \"\"] clean = x": "filter.clean",
		"[filter \"a=1\"] clean = x\n[filter \"a=2\"] clean = x":       "filter.a=1.clean filter.a=2.clean",
		"[sendemail \"work\"] sendmailCmd = x":                         "sendemail.work.sendmailcmd",
		"[lfs \"customtransfer.x\"] path = x\n[tar \"x\"] command = x": "lfs.customtransfer.x.path tar.x.command",
	} {
		list, err := ParseGitConfig(text)
		if got := strings.Join(NewlyExecutes(nil, list), " "); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseGitConfig(f *testing.F) {
	for _, row := range configs {
		f.Add(row.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := ParseGitConfig(text)
		for _, s := range list {
			if s.Section == "" || s.Name == "" || s.Name != strings.ToLower(s.Name) {
				t.Errorf("%+v", s)
			}
		}
		NamedPaths(list, filepath.Clean("/home/u"))
	})
}
