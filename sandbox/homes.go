package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// HomesInUse are the names of running sandboxes by the home volume that they use.
func (p Paths) HomesInUse(ctx context.Context) (map[string][]string, error) {
	dir := filepath.Join(p.Runtime, claimsDir)
	lock, err := holdSoon(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look what runs use: %w", err)
	}
	defer lock.Close()
	claims, err := living(dir)
	if err != nil {
		return nil, fmt.Errorf("look what runs use: %w", err)
	}
	used := map[string][]string{}
	for _, c := range claims {
		if c.Volume != "" {
			used[c.Volume] = append(used[c.Volume], c.Run)
		}
	}
	for _, runs := range used {
		slices.Sort(runs)
	}
	return used, nil
}
