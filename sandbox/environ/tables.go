package environ

import (
	"fmt"
	"net/netip"
	"strings"
)

// noProxy is what the agent itself serves, reached without the gate.
const noProxy = "localhost,127.0.0.1,::1"

// proxyVars name the gate to every client that can be told by a variable. They
// are a convenience: the fence holds without them. In value, URL stands for
// http://ADDR:PORT, NOPROXY for noProxy, HOST and PORT for the gate's.
//
// apt reads http_proxy and https_proxy, git through libcurl too, so neither
// needs more. CONNECT is all that the gate does for https, so the scheme of
// each value is http.
var proxyVars = []struct{ name, value, why string }{
	{"AISB_GATE", "URL", "aisb check, which asks the sandbox's own gate"},
	{"http_proxy", "URL", "curl takes no other spelling for http: HTTP_PROXY may come from a request's header in CGI"},
	{"HTTP_PROXY", "URL", "Go, Python, Node's libraries"},
	{"https_proxy", "URL", "curl, git, wget, apt, Go, Python"},
	{"HTTPS_PROXY", "URL", "the agents' own clients, Node's libraries"},
	{"all_proxy", "URL", "curl for every other scheme: the gate refuses with a reason"},
	{"ALL_PROXY", "URL", "httpx and others that know only this spelling"},
	{"ftp_proxy", "URL", "wget: the gate refuses with a reason"},
	{"FTP_PROXY", "URL", "the same in the other spelling"},
	{"no_proxy", "NOPROXY", "servers that the agent starts"},
	{"NO_PROXY", "NOPROXY", "the same in the other spelling"},
	{"npm_config_proxy", "URL", "npm: its own setting, which an .npmrc in the project can't override"},
	{"npm_config_https_proxy", "URL", "the same for https"},
	{"npm_config_noproxy", "NOPROXY", "the same for the exceptions"},
	{"YARN_HTTP_PROXY", "URL", "yarn 2 and later reads none of the common variables"},
	{"YARN_HTTPS_PROXY", "URL", "the same for https"},
	{"NODE_USE_ENV_PROXY", "1", "Node 22.21 and 24: fetch and http take the common variables only with it"},
	{"NODE_USE_SYSTEM_CA", "1", "Node has its own list of authorities: with it a company's, which the image has, counts too"},
	{"GLOBAL_AGENT_HTTP_PROXY", "URL", "Node programs that use global-agent"},
	{"GLOBAL_AGENT_HTTPS_PROXY", "URL", "the same for https"},
	{"GLOBAL_AGENT_NO_PROXY", "NOPROXY", "the same for the exceptions"},
	{"CARGO_HTTP_PROXY", "URL", "cargo: before git's own http.proxy, which it also looks at"},
	{"PIP_PROXY", "URL", "pip: its own setting, which a pip.conf can't override"},
	{
		"JAVA_TOOL_OPTIONS",
		"-Dhttp.proxyHost=HOST -Dhttp.proxyPort=PORT -Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT" +
			" -Dhttp.nonProxyHosts=localhost|127.*|[::1]",
		"the JVM, gradle and maven read none of the common variables",
	},
}

// Proxy points every client that reads a variable at the gate.
func Proxy(gate netip.AddrPort) []Var {
	replace := strings.NewReplacer(
		"URL", "http://"+gate.String(), "NOPROXY", noProxy,
		"HOST", javaHost(gate.Addr()), "PORT", fmt.Sprint(gate.Port()),
	)
	vars := make([]Var, 0, len(proxyVars))
	for _, p := range proxyVars {
		vars = append(vars, Var{p.name, []byte(replace.Replace(p.value))})
	}
	return vars
}

// javaHost is the address in brackets if it is IPv6 (java.net.URI's form).
func javaHost(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// Passed are the variables of the host that pass without being named:
// how the terminal looks and what language and time zone it has.
var Passed = []string{"TERM", "COLORTERM", "LANG", "TZ"}

// Path is the search path in the sandbox: the image's programs, nothing that
// the agent can write comes first.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Base is what every command gets, with the host's values of Passed.
func Base(lookup Lookup, home, user string) []Var {
	vars := []Var{
		{"HOME", []byte(home)},
		{"LANG", []byte("C.UTF-8")}, // in every image, unlike the user's locale
		{"LOGNAME", []byte(user)},
		{"PATH", []byte(Path)},
		{"SHELL", []byte("/bin/bash")},
		{"TERM", []byte("dumb")},
		{"USER", []byte(user)},
	}
	return append(vars, Terminal(lookup)...)
}

// Terminal are the host's values of Passed: for a command that gets the rest of
// its environment elsewhere.
func Terminal(lookup Lookup) []Var {
	var vars []Var
	for _, name := range Passed {
		if value, ok := lookup(name); ok && harmless(value) {
			vars = append(vars, Var{name, []byte(value)})
		}
	}
	return vars
}

// harmless keeps back what isn't the plain value that these variables have: a
// TZ may name a file of the host, and whatever else an odd value holds, the
// user did not name it.
func harmless(value string) bool {
	if value == "" || len(value) > 64 || strings.HasPrefix(strings.TrimPrefix(value, ":"), "/") {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool {
		return r <= ' ' || r >= 0x7f
	})
}
