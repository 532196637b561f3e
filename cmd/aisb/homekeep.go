package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/home"
	"github.com/aisb-dev/aisb/sandbox/newer"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// receiptHome is how many files of the home the receipt names.
const receiptHome = 8

// homesIn is where the records of homes lie in aisb's state directory.
func homesIn(state string) home.Records {
	return home.Records{Dir: filepath.Join(state, "homes")}
}

// checkHome checks the name of a home that a run asks for.
func checkHome(name string) error {
	if name == "" {
		return nil
	}
	if err := home.CheckName(name); err != nil {
		return usageError("aisb run", err)
	}
	return nil
}

// keptHome is the home volume of a run, from before its container until after it.
// nil stands for none.
type keptHome struct {
	name   string
	dir    string // where it lies on the host: the agent's files there are the user's
	held   *home.Held
	before []home.Entry
	err    error
}

// keepHome makes the home volume when it isn't there, with aisb's label, and holds
// it. podman is asked only when the volume isn't where it was before.
func keepHome(ctx context.Context, host sandbox.Host, name string) (*keptHome, error) {
	if name == "" {
		return nil, nil
	}
	held, err := homesIn(host.Paths.State).Use(name)
	if err != nil {
		return nil, &exitError{code: exitPodman, err: err,
			hint: "set XDG_STATE_HOME to a directory that you can write to; without it that is ~/.local/state"}
	}
	k := &keptHome{name: name, held: held}
	k.dir, err = held.Mountpoint()
	if later, ok := errors.AsType[*newer.Error](err); ok {
		held.Close()
		return nil, newerError(err, "remove that file, which only tells where podman keeps the home: rm "+shellQuote(later.Path))
	}
	if err == nil && k.dir == "" {
		if k.dir, err = makeHome(ctx, host.Podman, name); err == nil {
			err = held.Note(k.dir)
		}
	}
	if err == nil {
		err = held.Used(time.Now())
	}
	if err != nil {
		held.Close()
		return nil, &exitError{code: exitPodman, err: fmt.Errorf("keep the home %q: %w", name, err), hint: hintOf(err)}
	}
	return k, nil
}

// makeHome returns where the volume lies.
func makeHome(ctx context.Context, p podman.Podman, name string) (string, error) {
	if _, err := podmanOutput(ctx, p, home.CreateArgs(name)); err != nil {
		return "", err
	}
	v, err := volume(ctx, p, name)
	return v.Mountpoint, err
}

// volume asks podman about one volume.
func volume(ctx context.Context, p podman.Podman, name string) (home.Volume, error) {
	out, err := podmanOutput(ctx, p, home.InspectArgs(name))
	if err != nil {
		return home.Volume{}, err
	}
	list, err := home.ParseVolumes(out)
	if err == nil && (len(list) != 1 || list[0].Name != name) {
		err = errors.New("podman tells of another volume")
	}
	if err != nil {
		return home.Volume{}, err
	}
	return list[0], nil
}

// look remembers the start-up files as they are, once podman has filled a new
// volume and before anything of the run's could change them.
func (k *keptHome) look() {
	if k != nil {
		k.before, k.err = home.Look(k.dir, home.StartUp)
	}
}

// tell names the start-up files that have changed since.
func (k *keptHome) tell(u *ui) {
	if k == nil {
		return
	}
	after, err := home.Look(k.dir, home.StartUp)
	if err := cmp.Or(k.err, err); err != nil {
		u.warnf("whether the run has changed start-up files in the home %s is unknown: %v", k.name, err)
		if errors.Is(err, fs.ErrPermission) {
			// A directory of a volume that podman made for a container's root, as it does unasked.
			u.hintf("let yourself look into it, once: podman unshare chmod a+x %s", shellQuote(filepath.Dir(k.dir)))
		}
		return
	}
	if text := changedText(home.Compare(k.before, after)); text != "" {
		u.notef("start-up files changed in the home %s: %s", k.name, text)
	}
}

// changedText names the changes, if there are any.
func changedText(list []home.Change) string {
	var parts []string
	for i, c := range list {
		if i == receiptHome {
			parts = append(parts, fmt.Sprintf("%d more", len(list)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", c.Path, c.What))
	}
	return strings.Join(parts, ", ")
}

// close notes the end of the use.
func (k *keptHome) close() {
	if k == nil {
		return
	}
	_ = k.held.Used(time.Now()) // only 'aisb home ls' and 'aisb prune' read it
	k.held.Close()
}
