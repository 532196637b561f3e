package image

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BuildOptions are what the user may say about how, not what, to build.
type BuildOptions struct {
	Network string // podman's --network; "" leaves podman's default
	Fresh   bool   // use no layer of an earlier build
}

// BuildArgs is podman's argument vector for a build of the context in dir.
func (s Spec) BuildArgs(dir string, o BuildOptions) []string {
	args := []string{
		"build", "--file", dir + "/Containerfile", "--tag", s.Tag(),
		// The very image that the tag was computed of, whatever its name
		// stands for by now: see AliasArgs.
		"--from", s.alias(), "--pull=never",
		// Nothing of the user's environment goes into an image.
		"--http-proxy=false", "--unsetenv=PROMPT_COMMAND",
		"--layers",
	}
	if o.Network != "" {
		args = append(args, "--network", o.Network)
	}
	if o.Fresh {
		args = append(args, "--no-cache")
	}
	return append(args, dir)
}

// aliasName is what podman calls the base image of a build while it runs.
const aliasName = "aisb-from"

func (s Spec) alias() string {
	return "localhost/" + aliasName + ":" + strings.TrimPrefix(s.Tag(), Repository+":")
}

// AliasArgs gives the base image the name under which the build uses it, and
// UnaliasArgs takes the name away. podman names a build's working containers
// after their image, so that left-over ones can be told from the user's.
func (s Spec) AliasArgs() []string { return []string{"tag", s.BaseID, s.alias()} }

// UnaliasArgs see AliasArgs. The name stands there twice: with the image alone
// podman would take all its names away, the user's own too.
func (s Spec) UnaliasArgs() []string { return []string{"untag", s.alias(), s.alias()} }

// PullArgs gets the base image as it is now.
func PullArgs(base string) []string { return []string{"pull", "--quiet", base} }

// IDArgs asks for the ID of an image, which ParseID reads.
func IDArgs(ref string) []string {
	return []string{"image", "inspect", "--format", "{{.Id}}", ref}
}

// ParseID reads the answer to IDArgs.
func ParseID(out []byte) (string, error) {
	id := strings.TrimSpace(string(out))
	if !reID().MatchString(id) {
		return "", fmt.Errorf("podman names the image %q, which is no ID", id)
	}
	return strings.TrimPrefix(id, "sha256:"), nil
}

// containerLabel is podman.Label of sandbox/podman on the containers of builds: one that is
// left can be told from the user's.
const containerLabel = "dev.aisb.container=build"

// WarmArgs creates a container of the image that never runs; its output is
// the ID, for RemoveContainerArgs. podman then makes the copy of the image's
// layers whose files belong to the mapped user, which takes seconds; the first
// real run would have to wait for it.
func WarmArgs(tag string) []string {
	return []string{
		"create", "--label=" + containerLabel, "--pull=never", "--log-driver=none", "--network=none", "--http-proxy=false", "--no-healthcheck",
		"--image-volume=ignore", "--userns=keep-id:uid=1000,gid=1000", "--user=0:0", "--cap-drop=all", tag,
	}
}

// RemoveContainerArgs removes the container of WarmArgs.
func RemoveContainerArgs(id string) []string { return []string{"rm", "--force", id} }

// ListArgs asks for all images of aisb, which ParseList reads.
func ListArgs() []string {
	return []string{"images", "--all=false", "--filter", "label=" + LabelFormat, "--format", "json"}
}

// RemoveArgs removes images, and PruneArgs the layers that builds left and no
// image uses.
func RemoveArgs(refs ...string) []string { return append([]string{"rmi"}, refs...) }

// PruneArgs see RemoveArgs.
func PruneArgs() []string {
	return []string{"image", "prune", "--force", "--filter", "label=" + LabelFormat}
}

// AliasesArgs asks for the names that builds have given their base images, of which one
// that was killed leaves its own. ParseAliases reads the answer.
func AliasesArgs() []string {
	return []string{"images", "--filter", "reference=localhost/" + aliasName, "--format", "json"}
}

// ParseAliases reads the answer to AliasesArgs. UnnameArgs takes them away.
func ParseAliases(out []byte) ([]string, error) {
	return names(out, func(name string) bool { return strings.HasPrefix(name, "localhost/"+aliasName+":") })
}

// UnnameArgs takes one name of an image away, see UnaliasArgs.
func UnnameArgs(name string) []string { return []string{"untag", name, name} }

// ParseOthers reads the answer to ListArgs: the names that images of aisb have been given
// by others, and images without one. They are not aisb's to remove.
func ParseOthers(out []byte) ([]string, error) {
	return names(out, func(name string) bool { return !strings.HasPrefix(name, Repository+":") })
}

// names are those of the images that podman lists, sorted. An image without one has the
// start of its ID.
func names(out []byte, pass func(string) bool) ([]string, error) {
	var raw []struct {
		ID    string `json:"Id"`
		Names []string
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("parse podman's list of images: %w", err)
	}
	var list []string
	for _, r := range raw {
		if len(r.Names) == 0 {
			r.Names = []string{r.ID[:min(12, len(r.ID))]}
		}
		for _, name := range r.Names {
			if pass(name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Listed is an image that exists.
type Listed struct {
	Ref     string    `json:"ref"`
	ID      string    `json:"id"`
	Harness string    `json:"harness"`
	Base    string    `json:"base"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`
}

// ParseList reads the answer to ListArgs, an image once for each of its names
// in aisb's repository. Layers without a name are left out. podman 5.4 lists an
// image once for each of its names, with all of them each time.
func ParseList(out []byte) ([]Listed, error) {
	var raw []struct {
		ID      string            `json:"Id"`
		Names   []string          `json:"Names"`
		Created int64             `json:"Created"`
		Size    int64             `json:"Size"`
		Labels  map[string]string `json:"Labels"`
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("parse podman's list of images: %w", err)
	}
	list := []Listed{} // so that JSON has a list even when it is empty
	for _, r := range raw {
		for _, name := range r.Names {
			known := slices.ContainsFunc(list, func(l Listed) bool { return l.Ref == name })
			if known || !strings.HasPrefix(name, Repository+":") {
				continue
			}
			list = append(list, Listed{Ref: name, ID: r.ID, Size: r.Size, Created: time.Unix(r.Created, 0).UTC(),
				Harness: r.Labels[LabelHarness], Base: r.Labels[LabelBase]})
		}
	}
	return list, nil
}

// WorkingArgs asks for all containers, those of builds included, and LayersArgs
// for the IDs of all images that aisb's builds made. ParseWorking reads both.
func WorkingArgs() []string { return []string{"ps", "--all", "--external", "--format", "json"} }

// LayersArgs see WorkingArgs.
func LayersArgs() []string {
	return []string{"images", "--all", "--quiet", "--no-trunc", "--filter", "label=" + LabelFormat}
}

// ParseWorking returns the IDs of the working containers that a build of aisb
// which was cut off has left: podman 5.4.2 does not remove them when a signal
// ends it. They can't be told from those of a build that is running.
func ParseWorking(containers, layers []byte) ([]string, error) {
	ours := map[string]bool{}
	for line := range strings.Lines(string(layers)) {
		ours[strings.TrimPrefix(strings.TrimSpace(line), "sha256:")] = true
	}
	var raw []struct {
		ID      string   `json:"Id"`
		ImageID string   `json:"ImageID"`
		Names   []string `json:"Names"`
		Command []string `json:"Command"`
		State   string   `json:"State"`
	}
	if err := json.Unmarshal(containers, &raw); err != nil {
		return nil, fmt.Errorf("parse podman's list of containers: %w", err)
	}
	var ids []string
	for _, c := range raw {
		// Storage without a container of podman's own, made by a build.
		if c.State != "storage" || !slices.Equal(c.Command, []string{"buildah"}) {
			continue
		}
		named := slices.ContainsFunc(c.Names, func(n string) bool { return strings.HasPrefix(n, aliasName+"-working-container") })
		if named || ours[c.ImageID] {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}
