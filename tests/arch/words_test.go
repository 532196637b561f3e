package arch

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// registries are the hosts of package registries, in labels: the tree holds no
// such name, since tools know their registries from their own configuration and
// a company has its own.
var registries = [][]string{
	{"registry", "npmjs", "org"}, {"npmjs", "com"}, {"registry", "yarnpkg", "com"}, {"npm", "jsr", "io"},
	{"pypi", "org"}, {"files", "pythonhosted", "org"},
	{"proxy", "golang", "org"}, {"sum", "golang", "org"}, {"goproxy", "io"}, {"goproxy", "cn"},
	{"crates", "io"}, {"rubygems", "org"}, {"packagist", "org"}, {"nuget", "org"},
	{"repo", "maven", "apache", "org"}, {"maven", "org"}, {"plugins", "gradle", "org"},
	{"debian", "org"}, {"archive", "ubuntu", "com"}, {"security", "ubuntu", "com"}, {"ports", "ubuntu", "com"},
	{"dl-cdn", "alpinelinux", "org"}, {"deb", "nodesource", "com"}, {"fedoraproject", "org"},
	{"docker", "io"}, {"quay", "io"}, {"ghcr", "io"}, {"gcr", "io"},
}

// homes are users whose homes the tree may name: the container's, the lab's, and
// those of examples.
var homes = map[string]bool{"agent": true, "dev": true, "me": true, "u": true}

var (
	hostName = regexp.MustCompile(`(?i)[a-z0-9-]+(\.[a-z0-9-]+)+`)
	homePath = regexp.MustCompile(`(^|[^\w./$}~-])/(?:home|Users)/([\w.-]+)/`)
	rootPath = regexp.MustCompile(`(^|[^\w./$}~-])/ro` + `ot/`)
)

// words finds names that no file may hold. top is where this tree lies, which
// is nobody's business.
func words(text, top string) []string {
	var bad []string
	for _, host := range hostName.FindAllString(text, -1) {
		for _, labels := range registries {
			registry := strings.Join(labels, ".")
			if host = strings.ToLower(host); host == registry || strings.HasSuffix(host, "."+registry) {
				bad = append(bad, "host of a package registry: "+host)
			}
		}
	}
	for _, m := range homePath.FindAllStringSubmatch(text, -1) {
		if !homes[m[2]] {
			bad = append(bad, "path of one machine: "+strings.TrimSpace(m[0]))
		}
	}
	if m := rootPath.FindString(text); m != "" {
		bad = append(bad, "path of one machine: "+strings.TrimSpace(m))
	}
	// A tree right below / has a name that means other things too.
	if strings.Count(top, "/") > 1 && strings.Contains(text, top) {
		bad = append(bad, "path of one machine: "+top)
	}
	return bad
}

// sums lists modules and is written by the go command.
const sums = "go.sum"

// TestWords reads every text file, also those that aren't Go.
func TestWords(t *testing.T) {
	here, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tree(t) {
		if f.path == sums {
			continue
		}
		for _, bad := range words(f.text, here) {
			t.Errorf("%s: %s", f.path, bad)
		}
	}
}

func TestWordsBite(t *testing.T) {
	const slash = "/"
	npm := strings.Join(registries[0], ".")
	for _, text := range []string{
		"see https://" + npm + "/x", "DEB." + strings.Join([]string{"debian", "org"}, "."),
		`"` + slash + "home/alice/src", "cd " + slash + "Users/alice/src", slash + "root/go/pkg", "in " + slash + "srv/alice/aisb there",
	} {
		if len(words(text, "/srv/alice/aisb")) == 0 {
			t.Errorf("%q was let through", text)
		}
	}
	for _, text := range []string{
		"an" + npm, npm + ".example", slash + "home/agent/x", "$root" + slash + "root/x", slash + "root", "HOME" + slash + "home/x/",
		slash + "usr" + slash + "root/", slash + "srv/alice/other",
	} {
		if bad := words(text, "/srv/alice/aisb"); len(bad) > 0 {
			t.Errorf("%q: %v", text, bad)
		}
	}
}
