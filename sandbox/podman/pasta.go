package podman

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// helperDirs are where podman looks for its helpers before PATH
// (containers.conf(5), helper_binaries_dir).
var helperDirs = []string{
	"/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman",
}

// Pasta is the path of the pasta(1) that podman would start, "" if there is none.
func Pasta() string {
	for _, dir := range helperDirs {
		if path, err := exec.LookPath(filepath.Join(dir, "pasta")); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("pasta")
	if err != nil {
		return ""
	}
	return path
}

// pastaWithin bounds each of the calls that ask pasta about itself. A busy or emulated
// machine takes seconds for what is milliseconds elsewhere.
const pastaWithin = 5 * time.Second

// CheckPasta returns an error that says why the pasta that podman would start
// can't be used with these options, nil if it can. It is started with all of them
// and asked for its version, so that it reads them and does nothing.
func CheckPasta(ctx context.Context, options []string) error {
	path := Pasta()
	if path == "" {
		return errors.New("pasta(1) is not installed")
	}
	if err := unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK); err != nil {
		return fmt.Errorf("pasta(1) can't open /dev/net/tun: %w", err)
	}
	said, err := askPasta(ctx, path, append(slices.Clone(options), "--version")...)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s doesn't answer within %v", path, pastaWithin)
	}
	version := path
	if text, err := askPasta(ctx, path, "--version"); err == nil && PastaVersion(text) != "" {
		version = PastaVersion(text)
	}
	help, _ := askPasta(ctx, path, "--help") // some versions end with an error after it
	if lacks := PastaLacks(help, options); len(lacks) > 0 {
		return fmt.Errorf("%s is too old: it lacks %s", version, strings.Join(lacks, ", "))
	}
	said, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
	return fmt.Errorf("%s refuses aisb's options: %w: %s", version, err, said)
}

// askPasta returns all that pasta says. Nothing of the environment goes to it:
// it needs none.
func askPasta(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pastaWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{}
	cmd.WaitDelay = pastaWithin
	text, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // why it was killed
	}
	return string(text), err
}

// PastaVersion is the version in pasta's first line: "pasta 2024_09_06.6b38f07",
// "pasta 0.0~git20250503.587980c-2+deb13u1", "pasta 0^20240906.g6b38f07-1.fc40",
// or "pasta unknown version".
func PastaVersion(text string) string {
	for line := range strings.Lines(text) {
		p := strings.Fields(line)
		if len(p) >= 2 && (p[0] == "pasta" || p[0] == "passt") && strings.ContainsAny(p[1], "0123456789") {
			return "pasta " + p[1]
		}
	}
	return ""
}

// PastaLacks are the options among args that pasta's help text doesn't list. Of a
// text without any option nothing can be said.
func PastaLacks(help string, args []string) []string {
	var have []string
	for line := range strings.Lines(help) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "-") {
			continue
		}
		// "-t, --tcp-ports SPEC  TCP port forwarding"
		for _, word := range strings.Fields(line)[:min(2, len(strings.Fields(line)))] {
			if word = strings.TrimSuffix(word, ","); strings.HasPrefix(word, "-") {
				have = append(have, word)
			}
		}
	}
	if len(have) == 0 {
		return nil
	}
	var lacks []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") && !slices.Contains(have, a) && !slices.Contains(lacks, a) {
			lacks = append(lacks, a)
		}
	}
	return lacks
}
