//go:build linux

// Command spike tries, on this machine, what aisb's design takes for granted of
// podman, pasta, namespaces, nftables and capabilities. Each claim is printed with
// the commands that tried it, what was seen, and whether it holds. It must run as
// an ordinary user with rootless podman; the script run beside it takes care of
// that. docs/networking.md is written from its output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// claim is one sentence of the design and its trial. An error is a claim that
// doesn't hold.
type claim struct {
	id, says string
	try      func(*trial) error
}

// trial collects what one claim did and saw.
type trial struct {
	env   environment
	lines []string
	boxes []*box
}

// saw notes an observation.
func (t *trial) saw(format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
		t.lines = append(t.lines, "  saw "+line)
	}
}

// did notes a command.
func (t *trial) did(argv []string) {
	words := make([]string, len(argv))
	for i, w := range argv {
		if w == "" || strings.ContainsAny(w, " \t\n\"'$;|&<>*?()[]{}\\") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	line := strings.Join(words, " ")
	_, global := t.env.closed()
	for name, text := range map[string]string{
		"$CLOSED": strings.Join(global, " "), "$SANDBOX": strings.Join(sandboxFlags(), " "), "$PASTA": pastaNet,
	} {
		line = strings.Replace(line, text, name, 1)
	}
	t.lines = append(t.lines, "  $ "+line)
}

// claims in the order in which they are tried: the architecture's first.
func claims() []claim {
	var all []claim
	for _, group := range [][]claim{
		descriptorClaims(), lifelineClaims(), configurationClaims(), rightsClaims(),
		fenceClaims(), pastaClaims(), volumeClaims(), statusClaims(),
	} {
		all = append(all, group...)
	}
	return all
}

func main() {
	runtime.LockOSThread() // for the parent-death signals of children
	switch filepath.Base(os.Args[0]) {
	case entryName:
		os.Exit(entryMain())
	case holderName:
		os.Exit(holderMain())
	}
	image := flag.String("image", "localhost/aisb-base:trixie", "image to run: a Debian with nft, ip and python3, user 1000 owning /home/agent")
	only := flag.String("only", "", "try only claims whose id starts with this")
	flag.Parse()
	failed, err := run(*image, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "spike: error:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Printf("%d claims do not hold\n", failed)
		os.Exit(1)
	}
	fmt.Println("all claims hold")
}

func run(image, only string) (failed int, err error) {
	if os.Geteuid() == 0 {
		return 0, errors.New("run as an ordinary user: rootless podman is what is tried (tests/spike/run does it)")
	}
	env, err := newEnvironment(image)
	if err != nil {
		return 0, err
	}
	defer env.remove()
	fmt.Printf("%s\n", versions())
	_, global := env.closed()
	fmt.Printf("\nin the commands below, under CONTAINERS_CONF=%s/containers.conf:\n  CLOSED  %s\n  SANDBOX %s\n  PASTA   %s\n",
		env.conf, strings.Join(global, " "), strings.Join(sandboxFlags(), " "), pastaNet)
	for _, c := range claims() {
		if !strings.HasPrefix(c.id, only) {
			continue
		}
		t := &trial{env: env}
		start := time.Now()
		err := c.try(t)
		t.close()
		fmt.Printf("\n%s  %s\n", c.id, c.says)
		for _, l := range t.lines {
			fmt.Println(l)
		}
		if err != nil {
			failed++
			fmt.Printf("  NOT OK: %v\n", err)
			continue
		}
		fmt.Printf("  ok (%.1f s)\n", time.Since(start).Seconds())
	}
	return failed, nil
}

// versions are of what the observations are about.
func versions() string {
	lines := []string{"date     " + time.Now().UTC().Format(time.DateOnly)}
	for name, argv := range map[string][]string{
		"kernel   ": {"uname", "-srm"}, "podman   ": {"podman", "--version"}, "crun     ": {"crun", "--version"},
		"pasta    ": {"podman", "info", "--format", "{{.Host.Pasta.Package}}"}, "nft      ": {"nft", "--version"}, "conmon   ": {"conmon", "--version"},
	} {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		first, _, _ := strings.Cut(string(out), "\n")
		if err != nil {
			first = err.Error()
		}
		lines = append(lines, name+first)
	}
	return strings.Join(sorted(lines), "\n")
}
