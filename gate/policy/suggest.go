package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Suggest returns the shortest rule that lets a target through, or "" if there
// can be none. private says that it leads to a private address, tcp that what
// is spoken to it need not be TLS. Of what means this machine itself, it is the
// rule for the host's service on that port, which has a name of its own.
func Suggest(t Target, private, tcp bool) string {
	text := t.Name()
	switch {
	case t.Port == 0:
		return ""
	case meansHost(t) || t.Host == ServiceHost:
		text, private = ServiceHost+":"+strconv.Itoa(int(t.Port)), false
	case t.IsAddr():
		if text = (Target{Addr: t.Addr, Port: t.Port}).HostField(t.Port); Classify(t.Addr) == Private {
			private = true
		}
	case isLocalName(t.Host, false):
		private = true
	}
	if t.Port != portHTTP && t.Port != portHTTPS && !strings.HasPrefix(text, ServiceHost+":") {
		text += ":" + strconv.Itoa(int(t.Port))
	}
	if private {
		text += "+private"
	}
	if tcp || t.Port == portSSH { // nobody speaks TLS there
		text += "+tcp"
	}
	if !isRule(text, false) {
		return ""
	}
	return text
}

// meansHost reports targets that are the machine itself, whatever it is called.
func meansHost(t Target) bool {
	if t.IsAddr() {
		return t.Addr.IsLoopback() || t.Addr.IsUnspecified()
	}
	return isLocalhost(t.Host)
}

// isRule reports whether a text is a rule as it stands.
func isRule(text string, deny bool) bool {
	_, problem := (&Rule{Text: text}).parse(deny)
	return problem == ""
}

// hint is what may have been meant by a text that is no rule.
type hint struct {
	rules []string // without regard to whether they are rules
	text  string   // stands alone, or behind the rules
}

// sentence is the hint in words. It names nothing that would be refused in its
// turn.
func (h hint) sentence(deny bool) string {
	var quoted []string
	for _, text := range h.rules {
		if fixed := fix(text, deny); fixed != "" && !slices.Contains(quoted, strconv.Quote(fixed)) {
			quoted = append(quoted, strconv.Quote(fixed))
		}
	}
	if len(quoted) == 0 {
		if len(h.rules) > 0 {
			return ""
		}
		return h.text
	}
	return strings.TrimSpace("write " + strings.Join(quoted, " or ") + " " + h.text)
}

// fix adds to a text what is missing for it to be a rule, if that is all that
// is wrong with it.
func fix(text string, deny bool) string {
	if text == "" || len(text) > maxLine {
		return ""
	}
	host, options, _ := strings.Cut(text, "+")
	if deny {
		if isRule(host, true) {
			return host
		}
		return ""
	}
	if options != "" {
		options = "+" + options
	}
	for _, candidate := range []string{
		text, host + "+private" + options, host + ":443" + options, host + ":443+private" + options,
	} {
		if isRule(candidate, false) {
			return candidate
		}
	}
	if t, err := ParseAuthority(host); err == nil && meansHost(t) {
		return ServiceHost + ":" + strconv.Itoa(int(t.Port)) + strings.ReplaceAll(options, "+private", "")
	}
	return ""
}

// misread recognizes forms of other tools, so that the message can name the
// form meant.
func misread(text string) (h hint, problem string) {
	switch {
	case text == "":
		return hint{text: "write a host name, such as example.com"}, "is empty"
	case strings.Contains(text, "://"):
		return meantURL(text), "is a URL, a rule is a host"
	case strings.HasPrefix(text, "."):
		name := strings.TrimLeft(text, ".")
		return hint{rules: []string{"*." + name, name}, text: "for the names below it, or the name itself"}, "begins with a dot"
	case strings.ContainsAny(text, " \t"):
		if fixed := tidy(text); isRule(fixed, false) {
			return hint{rules: []string{fixed}}, "has a space in it"
		}
		return hint{text: "write one rule a line, and one after each --allow"}, "has a space in it"
	case strings.Contains(text, "@"):
		return hint{rules: []string{meantHost(text)}}, "has a user name in it"
	case text[0] == '!' && isRule(text[1:], true):
		return hint{text: fmt.Sprintf("to deny it: --deny '%s'", text[1:])}, `begins with "!"`
	}
	return hint{}, ""
}

// MeantTarget recognizes what is no HOST[:PORT] but names one: a URL, an address
// of mail or git, a path. is says what it is, "" that it is nothing known; host
// is empty when there is none in it.
func MeantTarget(text string) (host, is string) {
	switch {
	case strings.Contains(text, "://"):
		is, host = "is a URL, give HOST[:PORT]", meantURL(text).rules[0]
	case strings.Contains(text, "@"):
		is, host = "has a user name in it, give HOST[:PORT]", meantHost(text)
	case strings.Contains(text, "/"):
		is, host = "has a path in it, give HOST[:PORT]", meantHost(text)
	default:
		return "", ""
	}
	host, _, _ = strings.Cut(host, "+")
	if _, _, hasPort, _ := splitPort(host); !hasPort && (strings.HasPrefix(text, "http:") || strings.HasPrefix(text, "ws:")) {
		host += ":80" // the other default is 443
	}
	if _, err := ParseHost(host, portHTTPS); err != nil {
		return "", is
	}
	return host, is
}

// schemes are those whose port a rule must name, since it is none of the web's,
// and in whose tunnels no TLS need be spoken.
var schemes = map[string]int{"ssh": 22, "git+ssh": 22, "sftp": 22, "git": 9418, "ftp": 21, "postgres": 5432, "postgresql": 5432, "mysql": 3306, "redis": 6379}

// meantURL is the rule for the host of a URL.
func meantURL(text string) hint {
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	_, _, hasPort, err := splitPort(rest)
	port, known := schemes[scheme]
	switch {
	case err != nil:
		return hint{rules: []string{""}}
	case known && !hasPort:
		rest = fmt.Sprintf("%s:%d+tcp", rest, port)
	case known:
		rest += "+tcp"
	case !hasPort:
		// Only of the host's own services the port has to be named.
		if t, err := ParseHost(rest, portHTTPS); err == nil && (meansHost(t) || t.Host == ServiceHost) {
			if scheme == "http" || scheme == "ws" {
				t.Port = portHTTP
			}
			rest = t.String()
		}
	}
	return hint{rules: []string{rest}}
}

// meantHost is the rule for what is before a path or behind a user name:
// example.com/path, user@example.com, git@example.com:path.
func meantHost(text string) string {
	if i := strings.IndexByte(text, '@'); i >= 0 {
		text = text[i+1:]
	}
	text, _, _ = strings.Cut(text, "/")
	host, port, hasPort, err := splitPort(text)
	if err != nil || !hasPort {
		return text
	}
	if _, err := parsePort(port); err != nil && port != "*" {
		return host + ":22+tcp" // the form of scp and git: behind the colon is a path
	}
	return text
}

// meantWildcard keeps what follows the last label with a star in it.
func meantWildcard(host string) hint {
	labels := strings.Split(host, ".")
	for i, label := range slices.Backward(labels) {
		if strings.Contains(label, "*") {
			if rest := strings.Join(labels[i+1:], "."); strings.Contains(rest, ".") {
				return hint{rules: []string{"*." + rest}}
			}
			break
		}
	}
	if fixed := tidy(host); fixed != host && isRule(fixed, false) {
		return hint{rules: []string{fixed}, text: "for the names below it"}
	}
	return hint{text: "write each name, or *.NAME for all names below one"}
}

// meantService is the rule for a service of the host.
func (r *Rule) meantService() hint {
	if r.Port == 0 {
		return hint{text: "reach a service on the host by " + ServiceHost + ":PORT"}
	}
	text := ServiceHost + ":" + strconv.Itoa(int(r.Port))
	if r.TCP {
		text += "+tcp"
	}
	return hint{rules: []string{text}, text: "for a service on the host's 127.0.0.1"}
}
