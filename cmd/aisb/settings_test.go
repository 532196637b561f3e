package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox/config"
	"github.com/aisb-dev/aisb/tests/need"
)

var update = flag.Bool("update", false, "write the table of keys into docs/config.md")

const configPage = "../../docs/config.md"

// runFlags are all flags of run.
func runFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	cmd, _, err := newRootCmd(&ui{}).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Flags()
}

// Each flag has its key, of its kind, or a reason to have none.
func TestEachFlagHasItsKey(t *testing.T) {
	flags := runFlags(t)
	n := 0
	flags.VisitAll(func(f *pflag.Flag) {
		n++
		k, reason := config.ByFlag(f.Name), config.FlagsOnly[f.Name]
		if (k == nil) == (reason == "") {
			t.Errorf("--%s: it needs a line in sandbox/config/keys.go: a key, or a reason to have none (key %v, reason %q)", f.Name, k, reason)
		}
		if k == nil {
			return
		}
		_, list := f.Value.(pflag.SliceValue)
		if list != (k.Kind == config.List) || (f.NoOptDefVal == "true") != (k.Kind == config.Switch || k.Kind == config.Choice) {
			t.Errorf("--%s is a %s, its key %s", f.Name, f.Value.Type(), k.Kind)
		}
	})
	for _, k := range config.Keys {
		if flags.Lookup(k.FlagName()) == nil {
			t.Errorf("%s: there is no flag --%s", k.Name, k.FlagName())
		}
	}
	if n < 25 {
		t.Errorf("only %d flags seen", n)
	}
}

// TestConfigPage holds that the page lists the keys as they are.
func TestConfigPage(t *testing.T) {
	const begins, ends = "TestConfigPage -update -->\n", "<!-- end of keys -->\n"
	text, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begins)
	old, tail, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the keys", configPage)
	}
	made := keyTable(runFlags(t))
	if *update {
		if err := os.WriteFile(configPage, []byte(head+begins+made+ends+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != made {
		t.Errorf("%s: got\n%s\nwant\n%s", configPage, old, made)
	}
}

func keyTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| key | holds | flag | |\n|---|---|---|---|\n")
	for _, k := range config.Keys {
		_, usage := pflag.UnquoteUsage(flags.Lookup(k.FlagName()))
		usage, _, _ = strings.Cut(usage, "\n")
		usage = strings.TrimSuffix(usage, ":")
		var notes []string
		if k.Alias != "" {
			notes = append(notes, "also `"+k.Alias+"`")
		}
		if k.Narrows {
			notes = append(notes, "counts without an approval")
		}
		if k.Who == config.User {
			notes = append(notes, "*yours alone*")
		}
		for _, r := range k.Reserved {
			notes = append(notes, fmt.Sprintf("`%q` is *yours alone*", r))
		}
		if k.Env != "" {
			notes = append(notes, "`"+k.Env+"` overrides the files")
		}
		if len(notes) > 0 {
			usage += "; " + strings.Join(notes, "; ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | `--%s` | %s |\n", k.Name, k.Kind, k.FlagName(), strings.ReplaceAll(usage, "|", `\|`))
	}
	return b.String()
}

// TestConfigExamples runs the page: a block of TOML is the file that its first line
// names, and after "$ " stands what is typed.
func TestConfigExamples(t *testing.T) {
	text, err := os.ReadFile(configPage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("jq"); err != nil {
		need.Missing(t, "lab", err)
	}
	script, commands := exampleScript(string(text))
	if commands < 8 {
		t.Fatalf("%d commands on the page", commands)
	}
	file := filepath.Join(t.TempDir(), "page.txtar")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files:               []string{file},
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("AISB_BASE_IMAGE", "")
			runtime := filepath.Join(env.WorkDir, "runtime")
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			return errors.Join(os.Mkdir(runtime, 0o700), os.MkdirAll(filepath.Join(env.WorkDir, "project"), 0o700))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"example": example},
	})
}

// exampleScript makes a script out of a page.
func exampleScript(page string) (script string, commands int) {
	var b, files strings.Builder
	b.WriteString("cd project\nmkdir ../.config/aisb\n")
	kind, n := "", 0
	var block []string
	for line := range strings.Lines(page) {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && kind == "":
			kind, block = strings.TrimSpace(fence), nil
			continue
		case !isFence:
			block = append(block, line)
			continue
		}
		switch kind {
		case "toml":
			n++
			to := strings.TrimSpace(strings.TrimPrefix(block[0], "# "))
			to = strings.ReplaceAll(to, "~/", "../")
			fmt.Fprintf(&files, "-- project/block%d --\n%s", n, strings.Join(block, ""))
			fmt.Fprintf(&b, "cp block%d %s\nchmod 600 %s\nchmod 700 ../.config/aisb\n", n, to, to)
		case "console":
			n++
			fmt.Fprintf(&files, "-- project/block%d --\n%s", n, strings.Join(block, ""))
			fmt.Fprintf(&b, "example block%d\n", n)
			for _, l := range block {
				if strings.HasPrefix(l, "$ ") {
					commands++
				}
			}
		}
		kind = ""
	}
	return b.String() + files.String(), commands
}

// example types what a block says and compares: example FILE
func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: example FILE")
	}
	want := ts.ReadFile(args[0])
	var got strings.Builder
	for line := range strings.Lines(want) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		got.WriteString(line)
		if err := ts.Exec("sh", "-c", "{ "+strings.TrimSpace(command)+"\n} 2>&1"); err != nil {
			ts.Logf("%s: %v", command, err)
		}
		got.WriteString(strings.ReplaceAll(ts.ReadFile("stdout"), ts.Getenv("HOME"), "~"))
	}
	if a, b := squeezed(got.String()), squeezed(want); a != b {
		ts.Fatalf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// squeezed leaves one space where there are several: how wide a column is depends on
// where the home directory is.
func squeezed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// An error about a value that stands in a file names the line, whichever step of a
// run finds it; nothing but a flag's own name and quotes tells it (see blame).
func TestErrorsNameTheLine(t *testing.T) {
	home := t.TempDir()
	project := filepath.Join(home, "project")
	dir := filepath.Join(home, "config", "aisb")
	for _, d := range []string{project, dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	file := filepath.Join(dir, "config.toml")
	tried := 0
	for _, row := range []string{
		"allow = ['http://x.test']", "deny = ['a b']", "allow-files = ['missing']", "net = 'host'", "net-backend = 'tap'", "no-gate = 'tcp'",
		"resolver = 'dns.example'", "env = ['AISB_UNSET_VARIABLE']", "env-files = ['missing']", "workdir = 'missing'",
		"mounts = ['x:/mnt/x']", "mounts = ['/etc/passwd:/etc/x']", "home = 'a/b'", "harness = 'nonsense'", "base-image = '-x'", "packages = ['a b']",
		"ports = ['web']", "ports = ['1:80', '1:81']", "git-tokens = ['git.test']",
		"pids-limit = -1", "memory = 8", "cpus = 'many'", "tmpfs-size = 0", "min-free = '1'", "shm-size = '1x'",
	} {
		tried++
		if err := os.WriteFile(file, []byte("# one line above\n"+row+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		args := []string{"run", "--", "true"}
		if !strings.HasPrefix(row, "allow") && !strings.HasPrefix(row, "net =") {
			args = []string{"run", "--allow", "a.test", "--", "true"}
		}
		status := cli(args, &ui{Out: &out, Err: &errs})
		if want := "aisb: error: " + file + ":2: "; status != exitConfig || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s, want 78 and %s", row, status, errs.String(), want)
		}
	}
	if tried < 20 {
		t.Errorf("%d keys tried", tried)
	}
}
