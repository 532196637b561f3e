package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/sandbox/newer"
)

// recordFormat is the format of a Record. Raise it when one who knows the format before
// would run another image than is meant.
const recordFormat = 1

// Record is what aisb remembers of a build, so that a start needs to ask
// podman nothing: the base image that the Spec's reference stood for, and with
// it the tag.
type Record struct {
	Format  int       `json:"format"`
	Key     string    `json:"key"` // Spec.Key
	Base    string    `json:"base"`
	BaseID  string    `json:"base_id"`
	Tag     string    `json:"tag"`
	Harness string    `json:"harness"`
	Built   time.Time `json:"built"`

	// Sources are the presets of the package tools in it; nil is not known.
	Sources []preset.Preset `json:"sources"`

	Used time.Time `json:"-"` // the file's own time
}

// Records is the directory that holds them, one file for each Spec.
type Records struct{ Dir string }

func (r Records) path(key string) string { return filepath.Join(r.Dir, key+".json") }

// Find returns the Spec with the BaseID of its last build, and whether there is
// one that still fits. It notes the use.
func (r Records) Find(s Spec) (Spec, bool, error) {
	s, rec, ok, err := r.find(s)
	if ok {
		now := time.Now()
		_ = os.Chtimes(r.path(rec.Key), now, now) // only 'image prune' reads it
	}
	return s, ok, err
}

// Look is Find without a note.
func (r Records) Look(s Spec) (Spec, bool, error) {
	s, _, ok, err := r.find(s)
	return s, ok, err
}

// Sources are the presets of the package tools in the image of a Spec, and whether
// they are known.
func (r Records) Sources(s Spec) ([]preset.Preset, bool, error) {
	_, rec, ok, err := r.find(s)
	return rec.Sources, ok && rec.Sources != nil, err
}

// Built reports whether aisb has built the image called tag, for all that is known.
func (r Records) Built(tag string) (bool, error) {
	all, err := r.All()
	return slices.ContainsFunc(all, func(rec Record) bool { return rec.Tag == tag }), err
}

// SourcesOf are those of the image called tag.
func (r Records) SourcesOf(tag string) ([]preset.Preset, bool, error) {
	all, err := r.All()
	if err != nil {
		return nil, false, err
	}
	for _, rec := range all {
		if rec.Tag == tag && rec.Sources != nil {
			return rec.Sources, true, nil
		}
	}
	return nil, false, nil
}

func (r Records) find(s Spec) (Spec, Record, bool, error) {
	rec, err := r.read(r.path(s.Key()))
	if errors.Is(err, fs.ErrNotExist) {
		return s, Record{}, false, nil
	}
	if err != nil {
		return s, Record{}, false, err
	}
	s.BaseID = rec.BaseID
	if rec.Base != s.Base || !reID().MatchString(rec.BaseID) || s.Tag() != rec.Tag {
		return s, Record{}, false, nil
	}
	return s, rec, true, nil
}

// Save notes a build, and what it found of package tools: nil is not known. It
// replaces the file in one step.
func (r Records) Save(s Spec, sources []preset.Preset, built time.Time) error {
	rec := Record{Format: recordFormat, Key: s.Key(), Base: s.Base, BaseID: s.BaseID, Tag: s.Tag(), Harness: s.Harness.Name, Built: built.UTC(), Sources: sources}
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("save image record: %w", err)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fmt.Errorf("save image record: %w", err)
	}
	tmp, err := os.CreateTemp(r.Dir, ".new-")
	if err != nil {
		return fmt.Errorf("save image record: %w", err)
	}
	_, err = tmp.Write(append(data, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), r.path(rec.Key))
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("save image record: %w", err)
	}
	return nil
}

// Forget removes the record with key, if there is one.
func (r Records) Forget(key string) error {
	err := os.Remove(r.path(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget image record: %w", err)
	}
	return nil
}

// All returns every record that can be read, and of those that a newer aisb has written
// which image they are of and when it was used.
func (r Records) All() ([]Record, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list image records: %w", err)
	}
	var all []Record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		rec, err := r.read(filepath.Join(r.Dir, e.Name()))
		if _, later := errors.AsType[*newer.Error](err); later {
			rec.Key = strings.TrimSuffix(e.Name(), ".json")
		} else if err != nil {
			continue // a broken one describes no image, see read
		}
		all = append(all, rec)
	}
	return all, nil
}

// read returns fs.ErrNotExist also for a file that isn't a record: it can be
// made again, so it is as good as none. Of one that a newer aisb has written it returns
// the tag, and a *newer.Error.
func (r Records) read(path string) (Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return Record{}, err
	}
	var head struct {
		Format int    `json:"format"`
		Tag    string `json:"tag"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return Record{}, fs.ErrNotExist
	}
	if err := newer.Check(path, head.Format, recordFormat); err != nil {
		return Record{Tag: head.Tag, Used: info.ModTime()}, err
	}
	var rec Record
	if err := json.Unmarshal(text, &rec); err != nil || rec.Key == "" {
		return Record{}, fs.ErrNotExist
	}
	rec.Used = info.ModTime()
	return rec, nil
}
