package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// cliReference is the file that lists all commands.
const cliReference = "../../docs/cli.md"

// reference is the help of all commands, as they print it.
func reference(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("# The command line\n\nWhat each `--help` prints. Written by `make docs`; don't edit it.\n")
	eachCommand(newRootCmd(&ui{}), func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return // hidden: for aisb itself
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n## " + cmd.CommandPath() + "\n\n```\n" + strings.TrimSpace(out.String()) + "\n```\n")
	})
	return b.Bytes()
}

// TestReference: docs/cli.md says what the commands say. AISB_WRITE_DOCS=1 writes it.
func TestReference(t *testing.T) {
	want := reference(t)
	if os.Getenv("AISB_WRITE_DOCS") == "1" {
		if err := os.WriteFile(cliReference, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(cliReference)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/cli.md is not what the commands print: make docs")
	}
}

// TestManPages: each command has a manual page with its flags. AISB_MAN_DIR names
// where they go.
func TestManPages(t *testing.T) {
	dir := os.Getenv("AISB_MAN_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRootCmd(&ui{})
	root.DisableAutoGenTag = true // a date would make each build another one
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "aisb", Manual: "aisb"}, dir); err != nil {
		t.Fatal(err)
	}
	pages := 0
	eachCommand(root, func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		pages++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, part := range []string{".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s: no %s", cmd.CommandPath(), part)
			}
		}
	})
	if pages < 15 {
		t.Errorf("%d pages, expected one a command", pages)
	}
}
