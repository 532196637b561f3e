package need

import (
	"errors"
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
