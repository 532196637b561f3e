package podman

import (
	"encoding/json"
	"fmt"
	"slices"
)

// LeftArgs asks for the containers of aisb, running or not; ParseLeft reads the answer.
func LeftArgs() []string {
	return []string{"ps", "--all", "--filter", "label=" + Label, "--format", "json"}
}

// BuildLabel is the value of Label on containers of builds, which have no run. None of
// them runs for longer than a build does.
const BuildLabel = "build"

// Left is a container of aisb.
type Left struct{ ID, Name string }

// ParseLeft returns those that aisb has made: an image that somebody committed of one
// has its label, and containers of that are theirs.
func ParseLeft(out []byte) ([]Left, error) {
	var raw []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("parse podman's list of containers: %w", err)
	}
	var list []Left
	for _, r := range raw {
		if len(r.Names) > 0 && (slices.Contains(r.Names, r.Labels[Label]) || r.Labels[Label] == BuildLabel) {
			list = append(list, Left{r.ID, r.Names[0]})
		}
	}
	return list, nil
}

// RemoveLeftArgs ends and removes a container, and no volume.
func RemoveLeftArgs(id string) []string { return []string{"rm", "--force", "--time=0", id} }
