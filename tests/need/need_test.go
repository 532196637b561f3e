package need

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	absent := errors.New("not there")
	for _, r := range []struct {
		required, what string
		err            error
		want           verdict
		text           string
	}{
		{"", "nft", nil, runs, ""},
		{"nft", "nft", nil, runs, ""},
		{"", "nft", absent, skips, "nft is missing: not there"},
		{"podman,root", "nft", absent, skips, "nft is missing"},
		{"podman,nft", "nft", absent, fails, "nft is required by AISB_TEST_REQUIRE and missing: not there"},
		{"podman, nft", "nft", absent, fails, "required"},
		{"podman,nfs", "nft", absent, fails, `no need is called "nfs"; there are podman userns nft lab root vm`},
		{"podman,nfs", "nft", nil, fails, `"nfs"`},
		{"", "nfs", absent, fails, `"nfs"`},
	} {
		got, text := decide(r.required, r.what, r.err)
		if got != r.want || !strings.Contains(text, r.text) {
			t.Errorf("decide(%q, %q, %v) = %d %q, want %d %q", r.required, r.what, r.err, got, text, r.want, r.text)
		}
	}
}

func TestIsRoot(t *testing.T) {
	for _, r := range []struct {
		uid    int
		status string
		want   string
	}{
		{0, "Name:\tx\nCapEff:\t000001ffffffffff\n", ""},
		{0, "CapEff:\t0000000000201000\n", ""},
		{0, "CapEff:\t0000000000200000\n", "lacks rights"},
		{0, "CapEff:\t00000000a80425fb\n", "lacks rights"},
		{0, "CapEff:\tx\n", "invalid syntax"},
		{0, "CapPrm:\t000001ffffffffff\n", "no CapEff"},
		{1000, "CapEff:\t000001ffffffffff\n", "uid is 1000"},
	} {
		err := isRoot(r.uid, r.status)
		if (err == nil) != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
			t.Errorf("isRoot(%d, %q) = %v, want %q", r.uid, r.status, err, r.want)
		}
	}
}

func TestWriteDown(t *testing.T) {
	if err := writeDown("", "TestX", "root", "root is missing"); err != nil {
		t.Errorf("without a file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "left")
	if err := writeDown(path, "TestX", "root", "root is missing"); err == nil {
		t.Error("a file that isn't there was taken")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{{"TestX", "root"}, {"TestX/part/1", "nft"}} {
		if err := writeDown(path, r[0], r[1], r[1]+" is missing"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := "left to 'sudo make test'\t" + pkg + "\troot is missing\tTestX\n" +
		"left out\t" + pkg + "\tnft is missing\tTestX\n"
	if string(got) != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestLeftOut holds the same rule in shell.
func TestLeftOut(t *testing.T) {
	for _, r := range []struct {
		required string
		fails    bool
	}{
		{"", false}, {"root,nft", false}, {"podman", true}, {"root,podman,nft", true}, {"nft podman", true}, {"podmans", false},
	} {
		cmd := exec.Command("bash", "-euc", `. ../where; left_out spike podman 'not there'; echo went on`)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // an unset variable is the common case
		if r.required != "" {
			cmd.Env = append(cmd.Env, Variable+"="+r.required)
		}
		out, err := cmd.CombinedOutput()
		want := "spike: left out: not there\n"
		if r.fails {
			want = "spike: podman is required by AISB_TEST_REQUIRE and missing: not there\n"
		}
		if string(out) != want || (err != nil) != r.fails {
			t.Errorf("required %q: %q, %v; want %q", r.required, out, err, want)
		}
	}
}
