package image

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
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
		// stands for by now.
		"--from", s.BaseID, "--pull=never",
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

// PullArgs gets the base image as it is now.
func PullArgs(base string) []string { return []string{"pull", "--quiet", base} }

// IDArgs asks for the ID of an image, which ParseID reads.
func IDArgs(ref string) []string {
	return []string{"image", "inspect", "--format", "{{.Id}}", ref}
}

// ParseID reads the answer to IDArgs.
func ParseID(out []byte) (string, error) {
	id := strings.TrimSpace(string(out))
	if !reID.MatchString(id) {
		return "", fmt.Errorf("podman names the image %q, which is no ID", id)
	}
	return strings.TrimPrefix(id, "sha256:"), nil
}

// WarmArgs creates a container of the image that never runs; its output is
// the ID, for RemoveContainerArgs. podman then makes the copy of the image's
// layers whose files belong to the mapped user, which takes seconds; the first
// real run would have to wait for it.
func WarmArgs(tag string) []string {
	return []string{
		"create", "--pull=never", "--log-driver=none", "--network=none", "--http-proxy=false", "--no-healthcheck",
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
// in aisb's repository. Layers without a name are left out.
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
			if !strings.HasPrefix(name, Repository+":") {
				continue
			}
			list = append(list, Listed{Ref: name, ID: r.ID, Size: r.Size, Created: time.Unix(r.Created, 0).UTC(),
				Harness: r.Labels[LabelHarness], Base: r.Labels[LabelBase]})
		}
	}
	return list, nil
}

// Step is a point that a build has reached.
type Step struct {
	N, Of int // 1 is the first
	Title string
}

// Steps reads a build's output line by line, calls step at each that begins,
// and copies every line to log. It returns when the output ends.
func (s Spec) Steps(out io.Reader, log io.Writer, step func(Step)) error {
	stages := s.stages()
	total := 0
	for _, st := range stages {
		for _, in := range st.does {
			if in.title != "" {
				total++
			}
		}
	}
	n := 0
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if _, werr := io.WriteString(log, line); werr != nil {
				return werr
			}
		}
		if title, ok := stepTitle(stages, line); ok {
			n++
			step(Step{N: n, Of: total, Title: title})
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stepTitle finds the instruction that a line such as
// "[2/3] STEP 4/9: RUN set -eu; ..." announces. The FROM is step 1.
func stepTitle(stages []stage, line string) (string, bool) {
	var st, of, n, m int
	head, _, ok := strings.Cut(line, ": ")
	if !ok {
		return "", false
	}
	if c, err := fmt.Sscanf(head, "[%d/%d] STEP %d/%d", &st, &of, &n, &m); c != 4 || err != nil {
		return "", false
	}
	if st < 1 || st > len(stages) || n < 2 || n-2 >= len(stages[st-1].does) {
		return "", false
	}
	title := stages[st-1].does[n-2].title
	return title, title != ""
}

// Bytes writes a size for people.
func Bytes(n int64) string {
	if n < 1e6 {
		return strconv.FormatInt(n/1e3, 10) + " kB"
	}
	return strconv.FormatInt(n/1e6, 10) + " MB"
}
