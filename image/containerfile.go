package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tools are the Debian packages of every image: what a developer's shell has,
// and what harnesses would otherwise download (fd, ripgrep).
var tools = []string{
	"bash-completion", "bind9-dnsutils", "build-essential", "bzip2", "ca-certificates", "curl", "fd-find", "file",
	"git", "iproute2", "jq", "less", "make", "nano", "openssh-client", "patch", "pkg-config",
	"procps", "psmisc", "python3", "python3-pip", "python3-venv", "ripgrep", "rsync", "tree", "tzdata",
	"unzip", "vim-tiny", "wget", "xz-utils", "zip",
}

// Labels of every image, by which aisb finds its own again.
const (
	LabelFormat  = "dev.aisb.format"
	LabelHarness = "dev.aisb.harness"
	LabelBase    = "dev.aisb.base"
)

// instruction is a line of the Containerfile and what it is for.
type instruction struct {
	title string // "" for what takes no time and explains itself
	text  string
}

// stage is a FROM and what follows.
type stage struct {
	from, name string
	does       []instruction
}

// stages are cut so that each can change without those before it: tools, Node,
// harness; and in the last one first what the user adds, then the harness.
func (s Spec) stages() []stage {
	stages := []stage{
		// The only use of the base: podman's --from replaces the first FROM.
		{from: s.Base, name: "tools", does: s.toolsStage()},
	}
	if s.Harness.NPM != nil {
		stages = append(stages,
			stage{from: "tools", name: "node", does: s.nodeStage()},
			stage{from: "node", name: "harness", does: s.harnessStage()})
	}
	return append(stages, stage{from: "tools", does: s.lastStage()})
}

func (s Spec) toolsStage() []instruction {
	return []instruction{
		// First, so that every layer of a build can be told.
		{"", label(map[string]string{LabelFormat: fmt.Sprint(formatVersion)})},
		{"", "USER 0:0"}, // whoever the base image is
		{"install developer tools", shell(
			`if ! command -v apt-get >/dev/null; then echo "the base image has no apt-get: choose a Debian-like one" >&2; exit 1; fi`,
			aptInstall(tools),
			// Debian calls it fdfind; harnesses look for fd.
			`ln -s "$(command -v fdfind)" /usr/local/bin/fd`,
		)},
		{"make the user agent", shell(
			// Ubuntu's image has a user "ubuntu" there, Debian's has none.
			`old="$(getent passwd 1000 | cut -d: -f1)"`,
			`if [ -n "$old" ]; then userdel --remove "$old"; fi`,
			`old="$(getent group 1000 | cut -d: -f1)"`,
			`if [ -n "$old" ]; then groupdel "$old"; fi`,
			`groupadd --gid 1000 agent`,
			`useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash agent`,
			`install -d -o agent -g agent /project`,
		)},
		{"configure git", "COPY gitconfig /etc/gitconfig"},
	}
}

// nodeStage gets Node from the npm package that carries it: the distributions'
// own are older than harnesses accept. Their npm is used for that alone.
func (s Spec) nodeStage() []instruction {
	return []instruction{
		{"install npm to fetch Node with", shell(
			`if ! command -v npm >/dev/null; then ` + aptInstall([]string{"npm"}) + `; fi`,
		)},
		{"install Node " + s.Harness.NPM.Node, shell(
			`case "$(dpkg --print-architecture)" in amd64) arch=x64 ;; arm64) arch=arm64 ;; *) echo "no Node for $(dpkg --print-architecture)" >&2; exit 1 ;; esac`,
			npmInstall("/tmp/node", fmt.Sprintf(`"node-linux-$arch@%s" npm@11`, s.Harness.NPM.Node)),
			`mkdir -p /opt/aisb/node/lib/node_modules`,
			`cd /tmp/node/node_modules`,
			`mv "node-linux-$arch/bin" "node-linux-$arch/LICENSE" /opt/aisb/node/`,
			`mv npm /opt/aisb/node/lib/node_modules/`,
			`ln -s ../lib/node_modules/npm/bin/npm-cli.js /opt/aisb/node/bin/npm`,
			`ln -s ../lib/node_modules/npm/bin/npx-cli.js /opt/aisb/node/bin/npx`,
			`chown -R root:root /opt/aisb`,
			`rm -r /tmp/node`,
		)},
		{"configure npm", "COPY npmrc /opt/aisb/node/etc/npmrc"},
	}
}

func (s Spec) harnessStage() []instruction {
	n := s.Harness.NPM
	lines := []string{
		// Trust what the base image trusts, as curl and git there do; Node
		// brings a list of its own.
		`export PATH="/opt/aisb/node/bin:$PATH" NODE_USE_SYSTEM_CA=1`,
		npmInstall("/opt/aisb/harness", fmt.Sprintf(`'%s@%s'`, n.Package, n.Version)),
	}
	if len(n.Scripts) > 0 {
		lines = append(lines, `npm rebuild --prefix /opt/aisb/harness --ignore-scripts=false --foreground-scripts `+quoted(n.Scripts))
	}
	// What was packed with another owner, or writable by all, isn't here.
	lines = append(lines, `chown -R root:root /opt/aisb/harness`, `chmod -R go-w /opt/aisb/harness`)
	return []instruction{{"install " + s.Harness.Title, shell(lines...)}}
}

func (s Spec) lastStage() []instruction {
	var does []instruction
	if len(s.Packages) > 0 {
		does = append(does, instruction{"install added packages", shell(aptInstall(s.Packages))})
	}
	for i, c := range s.Commands {
		does = append(does, instruction{fmt.Sprintf("run added command %d", i+1), run(c)})
	}
	if s.Harness.NPM != nil {
		does = append(does,
			instruction{"copy Node", "COPY --from=node /opt/aisb/node /opt/aisb/node"},
			instruction{"copy " + s.Harness.Title, "COPY --from=harness /opt/aisb/harness /opt/aisb/harness"})
	}
	// Beside the large layers and not below them: a change of it costs nothing.
	does = append(does, instruction{"configure ssh", "COPY ssh_config /etc/ssh/ssh_config.d/aisb.conf"})
	for _, path := range slices.Sorted(maps.Keys(s.Harness.Told.Image)) {
		does = append(does, instruction{"configure " + s.Harness.Title, "COPY " + contextName(path) + " " + path})
	}
	lines := []string{}
	if n := s.Harness.NPM; n != nil {
		lines = append(lines, `ln -s -f -t /usr/local/bin /opt/aisb/node/bin/node /opt/aisb/node/bin/npm /opt/aisb/node/bin/npx`)
		for _, b := range n.Bins {
			lines = append(lines, `ln -s -f -t /usr/local/bin /opt/aisb/harness/node_modules/.bin/`+b, `test -x /usr/local/bin/`+b)
		}
	}
	// no_new_privs makes these bits void in the sandbox; without them nothing
	// depends on that. Last, since added packages bring some too.
	lines = append(lines, `find / -xdev -type f -perm /6000 -exec chmod ug-s {} +`)
	does = append(does, instruction{"put commands in place", shell(lines...)})
	return append(does,
		instruction{"", label(map[string]string{LabelHarness: s.Harness.Name, LabelBase: s.Base})},
		// In place of what the base would start; aisb puts its own entrypoint
		// there at run time.
		instruction{"", "ENTRYPOINT []\nCMD [\"bash\"]"},
		instruction{"", "USER 1000:1000"},
		instruction{"", "WORKDIR /project"},
	)
}

// Containerfile renders the build. The same Spec gives the same bytes.
func (s Spec) Containerfile() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# made by aisb, image format %d, harness %s\n", formatVersion, s.Harness.Name)
	for _, st := range s.stages() {
		fmt.Fprintf(&b, "\nFROM %s", st.from)
		if st.name != "" {
			fmt.Fprintf(&b, " AS %s", st.name)
		}
		b.WriteByte('\n')
		for _, in := range st.does {
			if in.title != "" {
				fmt.Fprintf(&b, "\n# %s\n", in.title)
			}
			fmt.Fprintf(&b, "%s\n", in.text)
		}
	}
	return b.Bytes()
}

// shell is a RUN of lines that stops at the first that fails.
func shell(lines ...string) string {
	return "RUN set -eu; \\\n    " + strings.Join(lines, "; \\\n    ")
}

// run is a RUN of a command that may hold anything, newlines too: as JSON, the
// builder interprets nothing of it.
func run(command string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode([]string{"/bin/sh", "-euc", command}) // strings always encode
	return "RUN " + strings.TrimSpace(b.String())
}

func label(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "LABEL " + strings.Join(parts, " ")
}

// aptInstall installs packages and leaves no lists or archives behind.
func aptInstall(packages []string) string {
	return "export DEBIAN_FRONTEND=noninteractive; \\\n" +
		"    apt-get update; \\\n" +
		// A build that is cut off is thrown away: dpkg needn't sync each file.
		"    apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io \\\n        " +
		strings.Join(packages, " \\\n        ") + "; \\\n" +
		"    apt-get clean; \\\n" +
		"    rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old"
}

func npmInstall(prefix, packages string) string {
	return "npm install --prefix " + prefix + " --ignore-scripts --no-audit --no-fund --loglevel=error --cache=/tmp/npm-cache " + packages +
		"; \\\n    rm -rf /tmp/npm-cache"
}

func quoted(names []string) string { return "'" + strings.Join(names, "' '") + "'" }
