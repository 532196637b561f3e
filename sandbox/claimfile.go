package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/newer"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// Of claims. They lie where a run's name, being podman's, can't lead.
const (
	claimsDir  = ".uses"
	claimsKey  = ".key"
	claimsWait = 30 * time.Second // others hold the directory for a moment
	claimSize  = 1 << 20
)

// claimKey reads the key, or makes it. The directory's lock is held.
func claimKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == sha256.Size {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key = make([]byte, sha256.Size)
	rand.Read(key) // never fails (crypto/rand)
	return key, os.WriteFile(path, key, 0o600)
}

// write puts the claim into dir, locked. The directory's lock is held, so nobody
// sees it half written.
func (c claim) write(dir string) (*os.File, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, c.Run), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.Write(text)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return f, nil
}

// living reads the claims of runs that live, and removes those of runs that
// don't. The directory's lock is held.
func living(dir string) ([]claim, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []claim
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := hold(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case err == nil: // nobody holds it: its aisb is dead
			os.Remove(path)
			f.Close()
		case errors.Is(err, unix.EWOULDBLOCK):
			c, err := readClaim(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		default:
			return nil, err
		}
	}
	return list, nil
}

func readClaim(path string) (claim, error) {
	f, err := os.Open(path)
	if err != nil {
		return claim{}, err
	}
	defer f.Close()
	var text json.RawMessage
	var head struct {
		Format int    `json:"format"`
		Volume string `json:"volume"`
	}
	var c claim
	if err = json.NewDecoder(io.LimitReader(f, claimSize)).Decode(&text); err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err == nil && newer.Check(path, head.Format, claimFormat) != nil {
		return claim{Format: head.Format, Run: filepath.Base(path), Volume: head.Volume}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return claim{}, err
	}
	if err != nil { // JSON's own words say nothing to a user
		run := filepath.Base(path)
		return claim{}, &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("%q is damaged: what the running sandbox %s uses can't be told", path, run),
			Hint: "end that one: aisb stop " + run}
	}
	return c, nil
}

// holdClaims makes the directory of claims, unless it is there, and holds it. Who waited
// may have got one that has been removed meanwhile ('aisb uninstall'), which nobody else
// would look into.
func holdClaims(ctx context.Context, dir string) (*os.File, error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		lock, err := holdSoon(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		held, err := lock.Stat()
		if now, there := os.Lstat(dir); err == nil && there == nil && os.SameFile(held, now) {
			return lock, nil
		}
		lock.Close()
		if err != nil {
			return nil, err
		}
	}
}

// holdSoon holds a directory that others hold for a moment each.
func holdSoon(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, claimsWait)
	defer cancel()
	for {
		f, err := hold(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(2 * time.Millisecond): // flock(2) has no time limit of its own
		}
	}
}
