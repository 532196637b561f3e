package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/aisb-dev/aisb/gate"
)

// maxSecretFile is more than anybody has secrets for.
const maxSecretFile = 1 << 20

// readSecret reads a file that not everybody may read. A token that every user
// of the machine can see keeps nobody out.
func readSecret(flag, name string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &exitError{code: exitConfig, err: fmt.Errorf("%s %q: %w", flag, name, err), hint: hint}
	}
	// Not to wait for a writer if it is a pipe.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(errors.Unwrap(err), "name a file that you can read")
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fail(err, "")
	case !info.Mode().IsRegular():
		return fail(errors.New("it is no plain file"), "SIGHUP reads files again, so they have to stay")
	case info.Mode().Perm()&0o007 != 0:
		return fail(errors.New("every user of this machine can get at it"), "chmod o= "+shellQuote(name))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return fail(err, "")
	}
	return string(text), nil
}

// tokens reads the file of --auth-token-file; nil without it.
func (o *gateOptions) tokens() (*gate.Tokens, error) {
	const flag = "--auth-token-file"
	if o.tokenFile == "" {
		return nil, nil
	}
	text, err := readSecret(flag, o.tokenFile)
	if err != nil {
		return nil, err
	}
	t, err := gate.ParseTokens([]byte(text))
	if err != nil {
		return nil, &exitError{code: exitConfig, err: fmt.Errorf("%s %q: %w", flag, o.tokenFile, err), hint: "make a token: openssl rand -hex 24"}
	}
	return t, nil
}

// isPort reports whether a text is a port that can be connected to.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// upstreamProxy reads --upstream-proxy and what belongs to it; nil without it.
// The proxy variables of the environment are not looked at: where a gate
// connects through is a choice, not an accident.
func (o *gateOptions) upstreamProxy() (*gate.Upstream, error) {
	if o.upstream == "" {
		if o.upstreamAuth != "" || o.upstreamResolves {
			return nil, usageError("aisb gate", errors.New("--upstream-auth-file and --upstream-resolves need --upstream-proxy"))
		}
		return nil, nil
	}
	up := &gate.Upstream{Resolves: o.upstreamResolves}
	u, err := url.Parse(o.upstream)
	switch {
	case err != nil || u.Scheme != "http" || !isPort(u.Port()) || u.Hostname() == "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--upstream-proxy %q is not http://HOST:PORT", o.upstream),
			hint: "for example --upstream-proxy http://proxy.example.com:3128"}
	case u.User != nil:
		return nil, &exitError{code: exitUsage, err: errors.New("--upstream-proxy has a password in it, which every user of this machine can see"),
			hint: "write USER:PASSWORD into a file: --upstream-auth-file FILE"}
	}
	if up.Addr = u.Host; u.Hostname() == "localhost" {
		up.Addr = "127.0.0.1:" + u.Port()
	}
	if o.upstreamAuth != "" {
		text, err := readSecret("--upstream-auth-file", o.upstreamAuth)
		if err != nil {
			return nil, err
		}
		text = strings.TrimRight(text, "\r\n")
		if !strings.Contains(text, ":") || strings.ContainsAny(text, "\r\n") {
			return nil, &exitError{code: exitConfig, err: fmt.Errorf("--upstream-auth-file %q: expected one line, USER:PASSWORD", o.upstreamAuth)}
		}
		up.Authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(text))
	}
	return up, nil
}
