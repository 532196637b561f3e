package doctor

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

const hintInstall = "install podman 5.3 or newer, and passt: sudo apt install podman passt uidmap (Debian 13)"

// tested is the podman that aisb's end-to-end tests run with.
var tested = version{5, 4}

// tooOld are podman's versions that can't do, the oldest first.
var tooOld = []struct {
	before version
	lacks  string
}{
	{version{4, 3}, "it lacks --userns=keep-id:uid=, and --network=pasta"},
	{version{4, 4}, "it lacks --network=pasta"},
}

// Before 5.3 podman gave pasta another address for DNS (containers/common,
// libnetwork/pasta: dnsForwardIpv4), which the fence doesn't probe; aisb ends a
// run whose pasta has arguments that it doesn't know.
var otherDNS = [2]version{{5, 0}, {5, 3}}

type version [2]int

func (v version) before(o version) bool { return v[0] < o[0] || v[0] == o[0] && v[1] < o[1] }

var reVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(\d{1,4})\.(\d{1,4})(\.\d+)?\S*`) })

// parseVersion finds the first version number of a text.
func parseVersion(text string) (version, string, bool) {
	m := reVersion().FindStringSubmatch(text)
	if m == nil {
		return version{}, "", false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return version{major, minor}, m[0], true
}

func judgePodmanVersion(f Facts) result {
	switch {
	case f.PodmanPath == "" && f.PodmanHidden != "":
		return fail("take that directory out of PATH, or install podman for the whole system",
			"podman is only in %s, which a sandbox can write to", f.PodmanHidden)
	case f.PodmanPath == "":
		return fail(hintInstall, "there is no podman in PATH")
	}
	o := f.PodmanVersion
	if r, bad := trouble(o, "podman --version"); bad {
		return r
	}
	v, text, found := parseVersion(o.Text)
	switch {
	case !found || !strings.Contains(strings.ToLower(o.Text), "podman"):
		return unknown("see what "+f.PodmanPath+" is", "podman --version says %q", firstLine(o.Text))
	case !v.before(otherDNS[0]) && v.before(otherDNS[1]):
		return fail(hintInstall, "podman %s is too old: it gives pasta a name server that aisb doesn't know", text)
	case v[0] > tested[0]:
		return note("", "podman %s; aisb is tested with %d.%d", text, tested[0], tested[1])
	}
	for _, old := range tooOld {
		if v.before(old.before) {
			return fail(hintInstall, "podman %s is too old: %s", text, old.lacks)
		}
	}
	if v.before(otherDNS[0]) {
		return unknown(hintInstall, "podman %s is older than those that aisb was ever tried with", text)
	}
	return ok("podman %s", text)
}

// trouble is what an answer that isn't one means.
func trouble(o Output, what string) (result, bool) {
	switch {
	case o.TimedOut > 0:
		return fail("a hung podman mostly waits for a lock or a dead network disk: look at 'ps -ef | grep podman'; a reboot frees it",
			"%s did not end within %v", what, o.TimedOut), true
	case o.Err != "":
		return fail("", "%s: %s", what, o.Err), true
	case !o.Ran:
		return unknown("", "%s was not tried", what), true
	case o.Status != 0:
		text := firstLine(o.Errors + o.Text)
		return fail(podman.Hint(o.Errors), "%s ends with status %d: %s", what, o.Status, text), true
	}
	return result{}, false
}

// firstLine is the first line that says something. podman puts its error last,
// behind warnings, so an error line wins.
func firstLine(text string) string {
	first := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if text, found := strings.CutPrefix(line, "Error: "); found {
			return text
		}
		if first == "" {
			first = line
		}
	}
	return first
}

// info is what is read of podman info.
type info struct {
	Host struct {
		OCIRuntime struct{ Name, Version string }
		Security   struct{ Rootless bool }
		IDMappings struct{ UIDMap, GIDMap []struct{ Size int } }

		ServiceIsRemote bool
	}
	Store struct {
		GraphDriverName, GraphRoot string
		GraphStatus                map[string]string
	}
	Version struct{ Version string }
}

// info is nil when podman said nothing that can be read.
func (f Facts) info() *info { return readInfo(f.PodmanInfo) }

// readInfo reads what podman said of itself, nil if it said nothing.
func readInfo(o Output) *info {
	if !o.fine() {
		return nil
	}
	var i info
	if json.Unmarshal([]byte(o.Text), &i) != nil || i.Host.OCIRuntime.Name == "" {
		return nil
	}
	return &i
}

// mapped is how many IDs podman's user namespace has beside the user's own.
func (i *info) mapped(what string) int {
	if i == nil {
		return 0
	}
	m := i.Host.IDMappings.UIDMap
	if what == "gid" {
		m = i.Host.IDMappings.GIDMap
	}
	sum := 0
	for _, r := range m {
		sum += r.Size
	}
	return max(sum-1, 0)
}

func judgePodmanWorks(f Facts) result {
	switch {
	case f.PodmanPath == "":
		return unknown("", "there is no podman to try")
	case f.UID == 0:
		return unknown("", "as root it was not tried")
	case f.PodmanConfErr != "":
		return fail("", "%s", f.PodmanConfErr)
	}
	if r, bad := trouble(f.PodmanInfo, "podman info"); bad {
		if strings.Contains(f.PodmanInfo.Errors, "unknown flag: --remote") || strings.Contains(f.PodmanInfo.Errors, "Cannot connect to Podman") {
			r.hint = "this podman only talks to another one: run aisb where the containers run"
		}
		return r
	}
	i := f.info()
	switch {
	case i == nil:
		return unknown("", "podman info says nothing that aisb can read")
	case !i.Host.Security.Rootless:
		return fail(hintUser, "podman says that it is not rootless")
	case max(i.mapped("uid"), i.mapped("gid")) == 0:
		return fail(hintIDs, "podman has no subordinate IDs")
	}
	return ok("podman info answers, rootless")
}

func judgeHere(f Facts) result {
	if i := f.info(); i != nil && i.Host.ServiceIsRemote {
		return fail("run aisb where the containers run", "this podman only talks to another one")
	}
	if f.Env["container"] != "" || f.Env["TOOLBOX_PATH"] != "" || f.Env["DISTROBOX_ENTER_PATH"] != "" || len(f.Marks) > 0 {
		seen := strings.Join(f.Marks, ", ")
		if seen == "" {
			seen = "the environment says so"
		}
		return unknown("run aisb on the host itself: in toolbox, distrobox or an IDE's container leave that first",
			"this is a container (%s): podman in there is untested", seen)
	}
	for _, name := range []string{"CONTAINER_HOST", "CONTAINER_CONNECTION"} {
		if f.Env[name] != "" {
			return note("", "%s names another podman: aisb ignores it, its containers run here", name)
		}
	}
	return ok("no container, no remote podman")
}

func judgeRuntime(f Facts) result {
	i := f.info()
	if i == nil {
		return unknown("", "podman info would tell")
	}
	r := i.Host.OCIRuntime
	_, text, _ := parseVersion(r.Version)
	if r.Name != "crun" {
		return unknown("install crun", "%s %s: aisb is tested with crun", r.Name, text)
	}
	return ok("crun %s", text)
}

func judgeStorage(f Facts) result {
	i := f.info()
	if i == nil {
		return unknown("", "podman info would tell")
	}
	switch driver := i.Store.GraphDriverName; {
	case driver == "vfs":
		return note("let 'driver' in storage.conf(5) be overlay, then: podman system reset (removes all images)",
			"vfs copies the whole image for each run")
	case driver == "overlay" && i.Store.GraphStatus["Native Overlay Diff"] == "false":
		return note("", "overlay by way of fuse-overlayfs, or with metacopy: slower than the kernel's own")
	case driver == "overlay":
		return ok("overlay")
	default:
		return unknown("", "%q: aisb is tested with overlay", driver)
	}
}
