package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
)

// gitLogin is a --git-token: the token in a variable, for one host.
type gitLogin struct {
	host     string // HOST or HOST:PORT, as git writes it in a URL
	variable string
}

// reLoginHost is a name, or an address, as it stands in a URL. No user name, no
// path, no wildcard: git would take the last for a pattern (gitcredentials(7)).
var reLoginHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)
})

var reVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

const loginHint = "write --git-token HOST=NAME, with NAME a variable that holds the token:\n" +
	"for example --git-token git.example.com=GIT_TOKEN"

// parseLogins reads the values of --git-token.
func parseLogins(flags []string) ([]gitLogin, error) {
	var list []gitLogin
	wrong := func(format string, args ...any) ([]gitLogin, error) {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--git-token: "+format, args...), hint: loginHint}
	}
	for _, flag := range flags {
		host, variable, ok := strings.Cut(flag, "=")
		host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "https://"), "/"))
		switch {
		case !ok:
			// It may be a token that somebody has pasted: it isn't shown.
			return wrong("there is no = in what it was given")
		case !reLoginHost().MatchString(host):
			return wrong("%q is not HOST or HOST:PORT", host)
		case !reVariable().MatchString(variable):
			return wrong("what follows %q is not the name of a variable", host+"=")
		}
		for _, other := range list {
			if other.host == host {
				return wrong("%q is there twice", host)
			}
		}
		list = append(list, gitLogin{host, variable})
	}
	return list, nil
}

// config makes git ask aisb for the login at this host, and nobody else: the empty
// value forgets other helpers (gitcredentials(7)), of which one might write the
// token into a file. Other hosts, and the same one without TLS, are not matched.
func (l gitLogin) config() [][2]string {
	key := "credential.https://" + l.host + ".helper"
	return [][2]string{
		{key, ""},
		// git's shell splits it; none of these words has anything that means something to it.
		{key, "/usr/local/bin/aisb git-token '" + l.host + "' " + l.variable},
	}
}

// unreached says that no rule lets git to the host, "" if one does.
func (l gitLogin) unreached(spec sandbox.Spec) string {
	if spec.Net == sandbox.NetFull {
		return ""
	}
	allow := true
	target, err := policy.ParseHost(l.host, 443)
	if rules, _, bad := policy.Parse(spec.Gate.Allow, spec.Gate.Deny, policy.Options{AllowAllNames: spec.Gate.AllowAllNames}); err == nil && bad == nil {
		allow = rules.Decide(target).Allow
	}
	if allow {
		return ""
	}
	text := fmt.Sprintf("--git-token %s: no rule allows %s", l.host, target)
	if rule := policy.Suggest(target, false, false); rule != "" {
		text += "; to allow it: --allow " + shellQuote(rule)
	}
	return text
}

// newGitTokenCmd is what git calls inside, see gitLogin.
func newGitTokenCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use: "git-token HOST NAME get", Short: "tell git a login (git calls this)", Hidden: true,
		Args: takes(3, 3),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[2] != "get" {
				return nil // store and erase: there is nothing to remember
			}
			token, ok := os.LookupEnv(args[1])
			if !ok {
				u.warnf("%s isn't set, so git has no login at %s; a command of 'aisb exec' gets it by -e %s", args[1], args[0], args[1])
				return nil
			}
			return answerGit(os.Stdin, u.Out, args[0], token)
		},
	}
}

// answerGit answers a request of git (git-credential(1), "INPUT/OUTPUT FORMAT") if
// it is about https and host. A token is what hosts take with any user name; where
// the user's own counts the variable has USER:TOKEN.
func answerGit(in io.Reader, out io.Writer, host, token string) error {
	asked := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(in, 64<<10))
	for lines.Scan() && lines.Text() != "" {
		key, value, _ := strings.Cut(lines.Text(), "=")
		asked[key] = value
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what git asks: %w", err)
	}
	if asked["protocol"] != "https" || !sameHost(asked["host"], host) {
		return nil // git goes on without
	}
	user, password, ok := strings.Cut(token, ":")
	if !ok {
		if user, password = asked["username"], token; user == "" {
			user = "x-access-token"
		}
	}
	if password == "" || strings.ContainsAny(token, "\r\n\x00") {
		return errors.New("the token is empty or has a line break in it")
	}
	_, err := fmt.Fprintf(out, "username=%s\npassword=%s\n", user, password)
	return err
}

// sameHost compares two of HOST and HOST:PORT, for https.
func sameHost(a, b string) bool {
	full := func(s string) string {
		if host, port, err := net.SplitHostPort(s); err == nil {
			return strings.ToLower(net.JoinHostPort(host, port))
		}
		return strings.ToLower(net.JoinHostPort(strings.Trim(s, "[]"), strconv.Itoa(443)))
	}
	return full(a) == full(b)
}
