package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// print writes it for people.
func (d *dryText) print(out io.Writer) error {
	t := &tables{out: out}
	image := d.Image.Ref
	if d.Image.Build {
		image = fmt.Sprintf("built first: harness %s on %s", d.Image.Harness, d.Image.Base)
	}
	network := d.Net
	if d.Backend != "" {
		network += ", backend " + d.Backend
	}
	t.section("RUN")
	t.row("name", d.Name)
	t.row("command", shellCommand(d.Command))
	t.row("workdir", d.Workdir)
	t.row("image", image)
	t.row("home", cmp.Or(d.Home, "none that stays"))
	t.row("network", network)
	if d.Backend != "" {
		t.row("resolver", cmp.Or(d.Resolver, "the host's"))
	}
	d.more(t)
	if len(d.Allow)+len(d.Deny) > 0 {
		t.section("RULES")
	}
	for _, r := range d.Allow {
		t.row("allow", r.Rule, r.Origin)
	}
	for _, r := range d.Deny {
		t.row("deny", r.Rule, r.Origin)
	}
	t.section("ENVIRONMENT, without values")
	for _, e := range d.Environment {
		t.row(e.Name, e.Origin)
	}
	t.section("MOUNTS")
	for _, m := range d.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		t.row(m.Target, mode, m.Source)
	}
	t.section("RULESET, as nft(8) text")
	t.text(cmp.Or(d.Ruleset, "none\n"))
	t.section("PODMAN, which also gets a descriptor 3 from aisb")
	t.text("CONTAINERS_CONF=" + shellQuote(d.PodmanConf) + " \\\n" + shellLines(d.Podman))
	if len(d.Notes) > 0 {
		t.section("NOT KNOWN BEFORE THE START")
		t.text(strings.Join(d.Notes, "\n") + "\n")
	}
	return t.end()
}

// more is what else the run does, if it does.
func (d *dryText) more(t *tables) {
	for _, port := range d.Ports {
		here := "a free port"
		if port.Host != 0 {
			here = fmt.Sprint("port ", port.Host)
		}
		t.row("reached at", fmt.Sprintf("%s of 127.0.0.1: port %d inside", here, port.Port))
	}
	if d.Timeout != "" {
		t.row("ended after", d.Timeout)
	}
	if d.Quarantine {
		t.row("quarantine", "of new files that the host may execute")
	}
}
