package environ

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// host is the environment of the tests' host.
func host(name string) (string, bool) {
	v, ok := map[string]string{
		"SET": "from the host", "EMPTY": "", "MULTI": "a\nb=\"c\"\n\xff", "NUL": "a\x00b",
		"TERM": "xterm-256color", "TZ": "Europe/Warsaw", "LANG": "pl_PL.UTF-8", "http_proxy": "http://proxy.example:1",
	}[name]
	return v, ok
}

func text(vars []Var) string {
	var b strings.Builder
	for _, v := range vars {
		b.WriteString("[" + v.Name + "=" + string(v.Value) + "]")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, row := range []struct {
		flags []string
		want  string
	}{
		{nil, ""},
		{[]string{"SET"}, "[SET=from the host]"},
		{[]string{"EMPTY"}, "[EMPTY=]"},
		{[]string{"MULTI"}, "[MULTI=a\nb=\"c\"\n\xff]"},
		{[]string{"A=", "B=x=y", "C= spaced \n\"q\" 'ż' \xff"}, "[A=][B=x=y][C= spaced \n\"q\" 'ż' \xff]"},
		{[]string{"npm_config_@scope:registry=x", "a.b-c=1", "ż=2"}, "[npm_config_@scope:registry=x][a.b-c=1][ż=2]"},
		{[]string{"LD_PRELOAD=/x.so"}, "[LD_PRELOAD=/x.so]"},
		{[]string{"A=1", "A=2"}, "[A=1][A=2]"},
	} {
		got, err := Parse(row.flags, host)
		if err != nil || text(got) != row.want {
			t.Errorf("%q: got %q, %v, want %q", row.flags, text(got), err, row.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for flag, want := range map[string]string{
		"":               "--env: a variable without a name",
		"=value":         "--env: a variable without a name",
		"UNSET":          `--env: "UNSET" is not set on the host`,
		"NUL":            `--env: the value of "NUL" holds a NUL byte`,
		"A=x\x00y":       `--env: the value of "A" holds a NUL byte`,
		"KEY secret":     `--env: white space or a control character in a variable's name, after "KEY"`,
		" A=1":           `--env: white space or a control character in a variable's name, after ""`,
		"A\n=1":          `--env: white space or a control character in a variable's name, after "A"`,
		"A\x00B=1":       `--env: white space or a control character in a variable's name, after "A"`,
		"-----secret":    "--env: a name of 11 bytes that is not shown is not set on the host",
		"KEY: sk-secret": `--env: white space or a control character in a variable's name, after a name of 4 bytes that is not shown`,
	} {
		vars, err := Parse([]string{"OK=1", flag}, host)
		if err == nil || err.Error() != want || vars != nil {
			t.Errorf("%q: got %q, %v, want %s", flag, text(vars), err, want)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || strings.Contains(err.Error()+e.Hint, "secret") {
			t.Errorf("%q: hint %q; no hint, or it tells a value", flag, e.Hint)
		}
	}
}

func TestMerge(t *testing.T) {
	env, names, err := Merge(
		[]Var{{"B", []byte("1")}, {"A", []byte("first")}},
		nil,
		[]Var{{"A", []byte("second")}, {"C", nil}, {"A", []byte("a\nb=\xff")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(bytes.Join(env, []byte("|"))), "A=a\nb=\xff|B=1|C="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"A", "B", "C"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	for _, v := range []Var{{"", nil}, {"A=B", nil}, {"A\x00", nil}, {"A B", nil}, {"A\n", nil}, {"A", []byte("x\x00y")}} {
		if env, _, err := Merge([]Var{{"OK", nil}}, []Var{v}); err == nil || env != nil {
			t.Errorf("%q: got %q, want an error", v, env)
		}
	}
}

// What no program can be started with is told with the variable's name.
func TestMergeBounds(t *testing.T) {
	big := Var{"BIG", bytes.Repeat([]byte("x"), maxVar-len("BIG=")-1)}
	if _, _, err := Merge([]Var{big}); err != nil {
		t.Errorf("as much as fits: %v", err)
	}
	big.Value = append(big.Value, 'x')
	if _, _, err := Merge([]Var{big}); err == nil || !strings.Contains(err.Error(), `"BIG"`) {
		t.Errorf("a byte more: %v", err)
	}
	var many []Var
	for i := range maxAll/100_000 + 1 {
		many = append(many, Var{fmt.Sprintf("V%d", i), make100k()})
	}
	if _, _, err := Merge(many); err == nil {
		t.Error("more than fits in all passes")
	}
}

func make100k() []byte { return bytes.Repeat([]byte("x"), 100_000) }

func TestProxy(t *testing.T) {
	vars := Proxy(netip.MustParseAddrPort("169.254.7.1:3128"))
	env, names, err := Merge(vars)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(vars) {
		t.Errorf("%d variables but %d names: one is there twice", len(vars), len(names))
	}
	all := "\n" + string(bytes.Join(env, []byte("\n"))) + "\n"
	for _, want := range []string{
		"http_proxy=http://169.254.7.1:3128", "HTTP_PROXY=http://169.254.7.1:3128",
		"https_proxy=http://169.254.7.1:3128", "HTTPS_PROXY=http://169.254.7.1:3128",
		"all_proxy=http://169.254.7.1:3128", "ALL_PROXY=http://169.254.7.1:3128",
		"no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
		"npm_config_proxy=http://169.254.7.1:3128", "npm_config_https_proxy=http://169.254.7.1:3128",
		"npm_config_noproxy=localhost,127.0.0.1,::1", "CARGO_HTTP_PROXY=http://169.254.7.1:3128", "NODE_USE_ENV_PROXY=1",
		"JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=169.254.7.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=169.254.7.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]",
	} {
		if !strings.Contains(all, "\n"+want+"\n") {
			t.Errorf("no %s in%s", want, all)
		}
	}
	for _, placeholder := range []string{"URL", "NOPROXY", "HOST=", "=PORT", "=HOST"} {
		for _, v := range vars {
			if strings.Contains(string(v.Value), placeholder) {
				t.Errorf("%s=%s: %s is left", v.Name, v.Value, placeholder)
			}
		}
	}
	six := text(Proxy(netip.MustParseAddrPort("[fd77::1]:80")))
	for _, want := range []string{"[https_proxy=http://[fd77::1]:80]", "-Dhttp.proxyHost=[fd77::1] -Dhttp.proxyPort=80 "} {
		if !strings.Contains(six, want) {
			t.Errorf("no %s in %s", want, six)
		}
	}
	for _, p := range proxyVars {
		if p.why == "" {
			t.Errorf("%s has no reason", p.name)
		}
	}
}

func TestBase(t *testing.T) {
	got := func(lookup Lookup) string {
		env, _, err := Merge(Base(lookup, "/home/agent", "agent"))
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.Join(env, []byte("|")))
	}
	const fixed = "HOME=/home/agent|LANG=%|LOGNAME=agent|PATH=" + Path + "|SHELL=/bin/bash|TERM=%|"
	want := func(lang, term, rest string) string {
		return strings.Replace(strings.Replace(fixed, "%", lang, 1), "%", term, 1) + rest
	}
	if got, want := got(host), want("pl_PL.UTF-8", "xterm-256color", "TZ=Europe/Warsaw|USER=agent"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	none := func(string) (string, bool) { return "", false }
	if got, want := got(none), want("C.UTF-8", "dumb", "USER=agent"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, odd := range []string{"", "/etc/secret", ":/etc/localtime", "a b", "a\nb", "\x1b[31m", "ż", strings.Repeat("x", 65)} {
		if got := got(func(name string) (string, bool) { return odd, true }); got != want("C.UTF-8", "dumb", "USER=agent") {
			t.Errorf("%q passes: %s", odd, got)
		}
	}
}

func TestGitConfig(t *testing.T) {
	if got := GitConfig(nil); got != nil {
		t.Errorf("got %q", text(got))
	}
	got := text(GitConfig([][2]string{{"gc.worktreePruneExpire", "never"}, {"safe.directory", "/a b"}}))
	want := "[GIT_CONFIG_COUNT=2][GIT_CONFIG_KEY_0=gc.worktreePruneExpire][GIT_CONFIG_VALUE_0=never][GIT_CONFIG_KEY_1=safe.directory][GIT_CONFIG_VALUE_1=/a b]"
	if got != want {
		t.Errorf("got %s", got)
	}
}
