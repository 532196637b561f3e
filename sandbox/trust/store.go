package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Store is the directory of the approvals, one file for each project.
type Store struct {
	Dir string // $XDG_STATE_HOME/aisb/trust
	UID int    // the user
}

// format is that of an Approval. Raise it when one who knows the format before would take
// more for approved than was: a field that narrows an approval, and is left unread.
const format = 1

// Approval is what the user has approved of a project.
type Approval struct {
	Format   int       `json:"format"`
	Project  string    `json:"project"` // for people; the file's name counts
	SHA256   string    `json:"sha256"`  // of the content
	Approved time.Time `json:"approved"`
	Says     []string  `json:"says"` // what the content was said to do
}

// Sum names a content.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Covers reports whether the approval is of this content.
func (a Approval) Covers(data []byte) bool { return a.SHA256 != "" && a.SHA256 == Sum(data) }

// path is the file of a project, named by the project's path, which may hold any
// byte.
func (s Store) path(project string) string {
	return filepath.Join(s.Dir, Sum([]byte(project))+".json")
}

// Find returns the approval of a project; the zero one, which covers nothing, when
// there is none.
func (s Store) Find(project string) (Approval, error) {
	f, err := os.OpenFile(s.path(project), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Approval{}, nil
	}
	if err != nil {
		return Approval{}, fmt.Errorf("read the approval: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = private(f.Name(), info, s.UID)
	}
	if err != nil {
		return Approval{}, fmt.Errorf("read the approval: %w", err)
	}
	return parseApproval(f.Name(), f)
}

// parseApproval reads the format first: in another one the rest may be anything.
func parseApproval(path string, r io.Reader) (Approval, error) {
	const anew = "take it back and give it anew: aisb config untrust; aisb config trust"
	text, err := io.ReadAll(r)
	if err != nil {
		return Approval{}, fmt.Errorf("read the approval: %w", err)
	}
	var head struct{ Format int }
	var a Approval
	if err := json.Unmarshal(text, &head); err != nil {
		return Approval{}, &Problem{Path: path, Reason: "is damaged: it holds no approval", Hint: anew}
	}
	if head.Format < 0 || head.Format > format {
		return Approval{}, &Problem{Path: path, Reason: fmt.Sprintf("was written by a newer aisb, in format %d; this one knows formats up to %d", head.Format, format),
			Hint: "use that aisb\nor " + anew}
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return Approval{}, &Problem{Path: path, Reason: "is damaged: it holds no approval", Hint: anew}
	}
	return a, nil
}

// Approve notes an approval, in the place of an earlier one.
func (s Store) Approve(project string, data []byte, says []string, now time.Time) error {
	text, err := json.MarshalIndent(Approval{Format: format, Project: project, SHA256: Sum(data), Approved: now.UTC(), Says: says}, "", "  ")
	if err != nil {
		return fmt.Errorf("note the approval: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("note the approval: %w", err)
	}
	// Aside and renamed: a run that starts meanwhile sees the old one or the new one.
	tmp, err := os.CreateTemp(s.Dir, ".new-")
	if err != nil {
		return fmt.Errorf("note the approval: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	// On the disk before it has its name: an empty one would stop each run.
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), s.path(project))
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("note the approval: %w", err)
	}
	return nil
}

// Forget takes an approval back, and reports whether there was one.
func (s Store) Forget(project string) (bool, error) {
	err := os.Remove(s.path(project))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take the approval back: %w", err)
	}
	return true, nil
}
