package image

import (
	_ "embed" // sources.sh below
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/gate/preset"
)

// PackageTools are the tools whose registries are read off an image.
func PackageTools() []string { return []string{"debian", "go", "npm", "pip"} }

// LabelPreset and a tool's name make the label by which an image that aisb didn't
// build says where the tool's packages come from: rules with spaces between.
const LabelPreset = "dev.aisb.preset."

// sourcesScript prints what each tool says of its own configuration. A company's
// mirror in the base image counts so, and no registry need be known here.
//
//go:embed sources.sh
var sourcesScript string

// SourcesArgs runs the script in the image, as the agent and with no network.
// ParseSources reads its output.
func SourcesArgs(tag string) []string {
	return []string{
		"run", "--rm", "--label=" + containerLabel, "--pull=never", "--log-driver=none", "--network=none", "--http-proxy=false", "--no-healthcheck",
		"--image-volume=ignore", "--userns=keep-id:uid=1000,gid=1000", "--user=1000:1000", "--cap-drop=all",
		"--security-opt=no-new-privileges", "--security-opt=label=disable", "--read-only", "--workdir=/",
		"--env=HOME=/home/agent", "--entrypoint", `["/bin/sh","-c"]`, tag, sourcesScript,
	}
}

// ParseSources makes a preset of each tool that the image has. The output is the
// image's: what isn't a host's name is left out.
func ParseSources(out []byte) []preset.Preset {
	sections := map[string]string{}
	tool := ""
	for line := range strings.Lines(string(out)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "aisb-section "); is {
			tool = name
			continue
		}
		sections[tool] += line
	}
	list := []preset.Preset{} // known, even if there are none
	for _, s := range []struct {
		tool, title string
		hosts       func(string) []preset.Host
	}{
		{"debian", "Debian packages, by apt's sources", debianHosts},
		{"go", "Go modules, by go env", goHosts},
		{"npm", "npm packages, by npm's configuration", npmHosts},
		{"pip", "Python packages, by pip's configuration", pipHosts},
	} {
		if hosts := s.hosts(sections[s.tool]); len(hosts) > 0 {
			list = append(list, preset.Preset{Name: s.tool, Kind: preset.Package, Title: s.title, Hosts: preset.Hosts{Core: hosts}})
		}
	}
	return list
}

// ParseLabels makes presets of an image's labels, as JSON.
func ParseLabels(out []byte) []preset.Preset {
	var labels map[string]string
	if json.Unmarshal(out, &labels) != nil {
		return nil // null: it has none
	}
	var list []preset.Preset
	for _, tool := range PackageTools() {
		var hosts []preset.Host
		for rule := range strings.FieldsSeq(labels[LabelPreset+tool]) {
			hosts = append(hosts, preset.Host{Rule: rule, Reason: "by the image's label " + LabelPreset + tool})
		}
		if hosts != nil {
			list = append(list, preset.Preset{Name: tool, Kind: preset.Package, Title: "by the image's label", Hosts: preset.Hosts{Core: hosts}})
		}
	}
	return list
}

// LabelsArgs asks for the labels of an image, which ParseLabels reads.
func LabelsArgs(ref string) []string {
	return []string{"image", "inspect", "--format", "{{json .Labels}}", ref}
}

// add puts the host of a URL on the list, once, with the port of its scheme.
// Whatever else is in the URL, a password perhaps, is dropped.
func add(hosts []preset.Host, text, reason string) []preset.Host {
	u, err := url.Parse(text)
	if err != nil {
		return hosts
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	default:
		return hosts // cdrom:, file:, mirror+file:
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		host = "[" + host + "]"
	} else if !reHost().MatchString(host) {
		return hosts
	}
	rule := host + ":" + port
	if slices.ContainsFunc(hosts, func(h preset.Host) bool { return h.Rule == rule }) {
		return hosts
	}
	return append(hosts, preset.Host{Rule: rule, Reason: reason})
}

// debianHosts reads a URI a line.
func debianHosts(text string) (hosts []preset.Host) {
	for line := range strings.Lines(text) {
		hosts = add(hosts, strings.TrimSpace(line), "packages, by apt's sources")
	}
	return hosts
}

// goHosts reads the JSON of go env. GOPROXY is a list with commas or bars
// between, of URLs and the words direct and off (Go Modules Reference,
// "GOPROXY protocol"); GOSUMDB is a name, a name and a key, or these and a URL.
func goHosts(text string) (hosts []preset.Host) {
	var env struct{ GOPROXY, GOSUMDB string }
	if json.Unmarshal([]byte(text), &env) != nil {
		return nil
	}
	for _, proxy := range strings.FieldsFunc(env.GOPROXY, func(r rune) bool { return r == ',' || r == '|' }) {
		hosts = add(hosts, strings.TrimSpace(proxy), "modules (GOPROXY)")
	}
	sum := strings.Fields(env.GOSUMDB)
	switch {
	case len(sum) == 0 || sum[0] == "off" || len(hosts) == 0:
	case len(sum) > 1:
		hosts = add(hosts, sum[len(sum)-1], "checksums of modules (GOSUMDB)")
	default:
		name, _, _ := strings.Cut(sum[0], "+")
		hosts = add(hosts, "https://"+name, "checksums of modules (GOSUMDB)")
	}
	return hosts
}

// npmHosts reads the JSON of npm config ls: the registry, and those of scopes.
func npmHosts(text string) (hosts []preset.Host) {
	var config map[string]any
	if json.Unmarshal([]byte(text), &config) != nil {
		return nil
	}
	if registry, ok := config["registry"].(string); ok {
		hosts = add(hosts, registry, "packages (registry)")
	}
	var scopes []string
	for key := range config {
		if strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry") {
			scopes = append(scopes, key)
		}
	}
	slices.Sort(scopes)
	for _, key := range scopes {
		if registry, ok := config[key].(string); ok {
			hosts = add(hosts, registry, "packages ("+key+")")
		}
	}
	return hosts
}

// pipHosts reads pip's own index and its files' host, then pip config list: an
// index that is configured takes the place of pip's own, others come on top.
func pipHosts(text string) (hosts []preset.Host) {
	own, extra, replaced := []string{}, []preset.Host{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if url, is := strings.CutPrefix(line, "own "); is {
			own = append(own, url)
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		_, option, _ := strings.Cut(key, ".") // global.index-url, :env:.index-url
		for _, url := range reURL().FindAllString(value, -1) {
			switch option {
			case "index-url":
				replaced = true
				extra = add(extra, url, "packages (index-url)")
			case "extra-index-url", "find-links":
				extra = add(extra, url, "packages ("+option+")")
			}
		}
	}
	if !replaced {
		for _, url := range own {
			hosts = add(hosts, url, "packages, by pip's default")
		}
	}
	for _, h := range extra {
		if !slices.ContainsFunc(hosts, func(have preset.Host) bool { return have.Rule == h.Rule }) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}
