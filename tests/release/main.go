//go:build linux

// Command release makes what is published of a commit: archives, packages, lists
// of what is in them, and their sums. Call it through the script run beside it,
// which pins the Go toolchain and looks at the modules first.
//
// Everything in it depends on the commit alone: two builds of one commit, wherever
// and whenever they are made, are the same bytes (docs/release.md).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

const usage = `usage: release [FLAGS]

  --out DIR       where it goes, in place of an older one (default dist)
  --arch LIST     amd64, arm64 (default both)
  --format LIST   tar.gz, deb, rpm (default all)
  --dirty         of a tree with changes, too: not for publishing
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "release: error:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	top, out       string
	archs, formats []string
	dirty          bool
}

var (
	allArchs   = []string{"amd64", "arm64"}
	allFormats = []string{"tar.gz", "deb", "rpm"}
)

func parse(args []string) (options, error) {
	o := options{top: ".", archs: allArchs, formats: allFormats}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.StringVar(&o.out, "out", "dist", "")
	flags.BoolVar(&o.dirty, "dirty", false, "")
	list := func(name string, to *[]string, all []string) {
		flags.Func(name, "", func(text string) error {
			*to = strings.Split(text, ",")
			for _, word := range *to {
				if !slices.Contains(all, word) {
					return fmt.Errorf("%q is none of %s", word, strings.Join(all, ", "))
				}
			}
			return nil
		})
	}
	list("arch", &o.archs, allArchs)
	list("format", &o.formats, allFormats)
	err := flags.Parse(args)
	return o, err
}

// run makes a release of the tree at o.top.
func run(ctx context.Context, o options) error {
	src, err := look(ctx, o.top, os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if src.dirty && !o.dirty {
		return fmt.Errorf("the tree has changes that commit %.12s hasn't: commit or stash them, or give --dirty", src.commit)
	}
	stage, err := os.MkdirTemp("", "aisb-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	b := build{src: src, top: o.top, stage: stage}
	say("%s, commit %.12s, %s", src.name, src.commit, runtime.Version())
	common, err := b.common(ctx, o.archs)
	if err != nil {
		return err
	}
	if err := makeRoom(o.out); err != nil {
		return err
	}
	for _, arch := range o.archs {
		if err := b.pack(ctx, arch, common, o); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	text, err := sums(o.out)
	if err != nil {
		return err
	}
	say("in %s:\n%s", o.out, strings.TrimSuffix(text, "\n"))
	return os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(text), 0o644)
}

// makeRoom makes room for a release: what is left of an older one would get into the sums.
func makeRoom(dir string) error {
	for _, pattern := range []string{"aisb_*", "SHA256SUMS"} {
		old, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range old {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// pack makes all formats of one architecture.
func (b build) pack(ctx context.Context, arch string, common []file, o options) error {
	binary := b.binary(arch)
	if err := b.check(arch, binary); err != nil {
		return err
	}
	base := b.src.base(arch)
	bom := filepath.Join(o.out, base+".cdx.json")
	if err := b.bom(ctx, binary, bom); err != nil {
		return err
	}
	files := append([]file{
		{from: binary, tar: "aisb", pkg: "/usr/bin/aisb", mode: 0o755},
		{from: bom, tar: "sbom.cdx.json", pkg: docDir + "/sbom.cdx.json", mode: 0o644},
	}, common...)
	for _, format := range o.formats {
		to := filepath.Join(o.out, base+"."+format)
		var err error
		if format == "tar.gz" {
			err = writeArchive(to, base, files, b.src.time)
		} else {
			err = b.nfpm(ctx, format, arch, files, to)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// say prints a line of progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...)
}
