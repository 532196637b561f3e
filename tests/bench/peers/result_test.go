package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// A bar that is missed is called so, in either direction, and one without its
// peer is left out.
func TestTable(t *testing.T) {
	r := &result{order: []string{gateName, "squid"}, values: map[string]values{
		gateName: {tunnelCPU: {80, 70, 100}, tunnelRate: {1000}, webCPU: {50, 52}},
		"squid":  {tunnelCPU: {100, 100, 100}, tunnelRate: {600}, webCPU: {50, 52}},
	}}
	got := r.table()
	for _, want := range []string{
		"| CPU per tunnel | µs | 80 (70 - 100) | 100 (100 - 100) |\n",
		"| tunnels set up | 1/s | 1000 | 600 |\n",
		"| CPU per tunnel | squid | <= 0.75 | 0.80 | **missed** |\n",
		"| tunnels set up | squid | >= 1.50 | 1.67 | met |\n",
		"| CPU per request | squid | <= 1.00 | 1.00 | met |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, none := range []string{"bare relay", "GiB", "NaN"} {
		if strings.Contains(got, none) {
			t.Errorf("%q in\n%s", none, got)
		}
	}
	d := xml.NewDecoder(strings.NewReader(r.plot()))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
}
