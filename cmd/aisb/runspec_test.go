package main

import (
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/environ"
)

func TestProxyWarnings(t *testing.T) {
	got := proxyWarnings([]environ.Var{{Name: "HTTPS_PROXY"}, {Name: "no_proxy"}, {Name: "PROXY_TOKEN"}})
	if len(got) != 2 || !strings.HasPrefix(got[0], "HTTPS_PROXY is given: ") || !strings.HasPrefix(got[1], "no_proxy ") {
		t.Errorf("got %q", got)
	}
}
