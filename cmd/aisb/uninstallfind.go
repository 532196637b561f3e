package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/home"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// kind is what something of aisb's on the host is.
type kind string

// The kinds, as they are listed.
const (
	kindContainer  kind = "container"
	kindImage      kind = "image"
	kindName       kind = "image name" // that a build gives its base image for as long as it runs
	kindHome       kind = "home"
	kindRuns       kind = "logs"
	kindApproval   kind = "approvals"
	kindQuarantine kind = "quarantine"
	kindRecords    kind = "records"
	kindCache      kind = "cache"
	kindTemp       kind = "left-over"
	kindRuntime    kind = "run-time"
	// Of what is left to the user alone.
	kindConfig  kind = "configuration"
	kindProgram kind = "program"
	kindBase    kind = "base image"
	kindVolume  kind = "volume"
	kindOther   kind = "other"
)

// fate is what becomes of it.
type fate string

// The fates.
const (
	fateRemove  fate = "remove"
	fateRemoved fate = "removed"
	fateKept    fate = "kept"
	fateFailed  fate = "failed"
)

// belonging is something on the host that aisb has made, or that has to do with it.
type belonging struct {
	Kind kind   `json:"kind"`
	Name string `json:"name"`
	Size int64  `json:"size,omitempty"`
	What string `json:"what,omitempty"`
	Fate fate   `json:"fate"`
	Why  string `json:"why,omitempty"` // it is kept, or has failed

	remove func(ctx context.Context) error
}

// removal is all of them, and what it takes to remove them.
type removal struct {
	host    sandbox.Host
	homes   *homes
	builder *builder
	kept    map[kind]bool
	config  bool
	fresh   bool // the directory of run-time files was made by this call
	list    []belonging
}

func newRemoval(u *ui, o uninstallOptions, kept map[kind]bool) (*removal, error) {
	r := &removal{kept: kept, config: o.config, list: []belonging{}} // [] and not null
	var err error
	if os.Getuid() == 0 { // for whom aisb runs nothing
		r.host.Paths, err = sandbox.FindPaths(os.Getenv, 0)
		return r, err
	}
	r.host, err = openHost(maybeProject(os.Getwd, os.Getenv("HOME")))
	if errors.Is(err, podman.ErrNotInstalled) && !r.knowsPodman() {
		return r, nil
	}
	if errors.Is(err, podman.ErrNotInstalled) {
		r.list = append(r.list, belonging{Kind: kindOther, Name: "in podman's store", Fate: fateFailed,
			Why: "podman is not installed, so that nobody can say what aisb has there"})
		return r, nil
	}
	r.homes = &homes{host: r.host, records: homesIn(r.host.Paths.State)}
	r.builder = &builder{u: u, podman: r.host.Podman, records: recordsIn(r.host.Paths.State)}
	return r, err
}

// knowsPodman says whether a run or a build has ever come so far that podman was asked.
func (r *removal) knowsPodman() bool {
	return slices.ContainsFunc(r.host.Paths.Places(), func(p sandbox.Place) bool {
		_, err := os.Lstat(p.Path)
		return err == nil && (p.Kind == sandbox.PlaceHomes || p.Kind == sandbox.PlaceImages)
	})
}

func (r *removal) add(b belonging) {
	if b.Fate == "" {
		b.Fate = fateRemove
	}
	if r.kept[b.Kind] {
		b.Fate, b.Why, b.remove = fateKept, "as --keep says", nil
	}
	r.list = append(r.list, b)
}

// keep is for what is the user's.
func (r *removal) keep(k kind, name, why string) {
	r.list = append(r.list, belonging{Kind: k, Name: name, Fate: fateKept, Why: why})
}

// going are those that will be removed.
func (r *removal) going() []belonging {
	return slices.DeleteFunc(slices.Clone(r.list), func(b belonging) bool { return b.Fate != fateRemove })
}

// find lists all in the order in which it goes: what is in podman's store first, and last
// the directory that podman's configuration lies in.
func (r *removal) find(ctx context.Context) error {
	finds := []func(context.Context) error{r.findContainers, r.findImages, r.findHomes}
	if r.builder == nil {
		finds = nil
	}
	for _, find := range finds {
		if err := find(ctx); err != nil {
			return err
		}
	}
	if err := r.findPlaces(); err != nil {
		return err
	}
	r.findTemp()
	return r.findOwn()
}

// placeKinds are the kinds of places, and what is said of them.
var placeKinds = map[sandbox.PlaceKind]struct {
	kind kind
	what string
}{
	sandbox.PlaceRuns:       {kindRuns, "logs, records and output of runs"},
	sandbox.PlaceApprovals:  {kindApproval, "approvals of projects' .aisb.toml"},
	sandbox.PlaceQuarantine: {kindQuarantine, "what was moved out of projects"},
	sandbox.PlaceHomes:      {kindRecords, "which homes were used, and when"},
	sandbox.PlaceImages:     {kindRecords, "which images were built, and when they were used"},
	sandbox.PlaceCache:      {kindCache, "what can be made again"},
	sandbox.PlaceRuntime:    {kindRuntime, "sockets, locks and podman's configuration"},
}

func (r *removal) findPlaces() error {
	for _, p := range r.host.Paths.Places() {
		info, err := os.Lstat(p.Path)
		if errors.Is(err, fs.ErrNotExist) || p.Kind == sandbox.PlaceRuntime && r.fresh {
			continue
		}
		if err != nil {
			return err
		}
		k := placeKinds[p.Kind]
		if to, link := p.Link(); link {
			r.keep(k.kind, p.Path, "a link that you have made: what lies in "+to+" is left, too")
			continue
		}
		b := belonging{Kind: k.kind, Name: p.Path, What: k.what, Size: diskUsage(p.Path, info), remove: func(context.Context) error { return p.Remove(r.host.Paths) }}
		if entries, err := os.ReadDir(p.Path); err == nil && (k.kind == kindRuns || k.kind == kindApproval || k.kind == kindQuarantine) {
			b.What += fmt.Sprintf(" (%d)", len(entries))
		}
		if p.Kind == sandbox.PlaceHomes && r.kept[kindHome] || p.Kind == sandbox.PlaceImages && r.kept[kindImage] {
			b.Fate, b.Why = fateKept, "it belongs to what --keep names"
		}
		r.add(b)
	}
	strange, err := r.host.Paths.Strange()
	for _, path := range strange {
		r.keep(kindOther, path, "this aisb doesn't know it; another version may have made it")
	}
	return err
}

// diskUsage is how much room a file or directory takes.
func diskUsage(path string, info fs.FileInfo) int64 {
	if !info.IsDir() {
		return info.Size()
	}
	u, err := home.Measure(path)
	if err != nil {
		return 0 // not a number that anybody counts on
	}
	return u.Bytes
}

// tempNames are the beginnings of names that aisb gives directories for temporary files.
// What ends in order removes its own.
var tempNames = []string{"aisb-build-", "aisb-attack-", "aisb-doctor-"}

func (r *removal) findTemp() {
	for _, prefix := range tempNames {
		paths, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")) // the pattern is well formed
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err != nil || !info.IsDir() {
				continue
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != r.host.UID {
				continue // another user's
			}
			r.add(belonging{Kind: kindTemp, Name: path, Size: diskUsage(path, info), What: "temporary files of a call that was killed",
				remove: func(context.Context) error { return os.RemoveAll(path) }})
		}
	}
}

// findOwn names what is the user's own: what aisb reads and hasn't written, and what was
// installed.
func (r *removal) findOwn() error {
	config, err := configPath(os.Getenv)
	if err != nil {
		return err
	}
	dir := filepath.Dir(config)
	if info, err := os.Lstat(dir); err == nil {
		if r.config {
			r.add(belonging{Kind: kindConfig, Name: dir, Size: diskUsage(dir, info), What: "your configuration",
				remove: func(context.Context) error { return os.RemoveAll(dir) }})
		} else {
			r.keep(kindConfig, dir, "you have written it; --config removes it")
		}
	}
	user := os.Getenv("HOME")
	for path, how := range map[string]string{
		filepath.Join(filepath.Dir(dir), "systemd/user/aisb-gate.service"):      "you have put it there: systemctl --user disable --now aisb-gate.service, and rm",
		filepath.Join(filepath.Dir(dir), "systemd/user/aisb-gate.socket"):       "you have put it there: systemctl --user disable --now aisb-gate.socket, and rm",
		filepath.Join(filepath.Dir(dir), "fish/completions/aisb.fish"):          "you have put it there: rm",
		filepath.Join(user, ".local/share/bash-completion/completions", "aisb"): "you have put it there: rm",
	} {
		if _, err := os.Lstat(path); err == nil {
			r.keep(kindOther, path, how)
		}
	}
	if self, err := os.Executable(); err == nil {
		r.keep(kindProgram, strings.TrimSuffix(self, " (deleted)"), "remove it as it was installed: by the package manager, or rm")
	}
	return nil
}

// bases are the base images that aisb has built on, by its records.
func (r *removal) bases() []string {
	records, err := r.builder.records.All()
	if err != nil {
		return nil // they are only named
	}
	var list []string
	for _, rec := range records {
		if rec.Base != "" && !strings.HasPrefix(rec.Base, image.Repository+":") {
			list = append(list, rec.Base)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
