package sandbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/newer"
)

// claim is what a run uses of the host and with which rights, as it is written
// down for other runs to see (docs/adr/0088). Rules and environment
// are told by codes, which only show whether they are the same.
type claim struct {
	Format      int           `json:"format"`
	Run         string        `json:"run"`
	Rules       string        `json:"rules"`
	Environment string        `json:"environment"`
	Volume      string        `json:"volume,omitempty"`
	Areas       []mounts.Area `json:"areas"`
}

// claimFormat is the format of a claim. Raise it when one who knows the format before
// would not see that the two use the same thing.
const claimFormat = 1

// statusUsage is the status of what can't be run as asked.
const statusUsage = 2

// claimed is a claim that others see until it is released, or this process ends:
// a lock tells that it lives, which no death leaves behind.
type claimed struct {
	file   *os.File
	joined []string // runs that it meets (--share)
}

// enter makes the directories of a run when it may use what it asks for.
func (p Paths) enter(ctx context.Context, spec Spec) (RunDirs, error) {
	uses, err := p.claim(ctx, spec)
	if err != nil {
		return RunDirs{}, err
	}
	dirs, err := p.MakeRunDirs(spec.Name)
	if err != nil {
		uses.release()
		return RunDirs{}, err
	}
	dirs.uses = uses
	if err := clearDead(dirs.Runtime); err != nil {
		dirs.held.Close()
		uses.release()
		return RunDirs{}, err
	}
	return dirs, nil
}

// Joined are the running sandboxes with other rights whose files this one shares.
func (s *Session) Joined() []string { return s.dirs.uses.joined }

// claim writes down what spec uses, unless a running sandbox with other rights
// uses it too. Between two that start at once, one comes first.
func (p Paths) claim(ctx context.Context, spec Spec) (*claimed, error) {
	mine, err := spec.claim()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.Runtime, claimsDir)
	lock, err := holdClaims(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("note what the run uses: %w", err)
	}
	defer lock.Close()
	if err := spec.sign(&mine, dir); err != nil {
		return nil, fmt.Errorf("note what the run uses: %w", err)
	}
	others, err := living(dir)
	if err != nil {
		return nil, fmt.Errorf("look what other runs use: %w", err)
	}
	c := &claimed{}
	for _, other := range others {
		if other.Run == spec.Name {
			return nil, &Failure{Status: statusUsage, Err: fmt.Errorf("a sandbox with the name %q is running", spec.Name),
				Hint: "take another --name, or end it: aisb stop " + spec.Name}
		}
		f := mine.conflict(other)
		if f == nil {
			continue
		}
		if !spec.Share {
			return nil, f
		}
		c.joined = append(c.joined, other.Run)
	}
	if c.file, err = mine.write(dir); err != nil {
		return nil, fmt.Errorf("note what the run uses: %w", err)
	}
	return c, nil
}

// release lets others have what the run used.
func (c *claimed) release() {
	if c == nil {
		return
	}
	os.Remove(c.file.Name())
	c.file.Close()
}

// claim is what s uses. It is without the codes.
func (s Spec) claim() (claim, error) {
	areas, err := mounts.Areas(slices.Concat(s.Mounts, s.Nested))
	if err != nil {
		return claim{}, fmt.Errorf("look where the mounts lie: %w", err)
	}
	return claim{Format: claimFormat, Run: s.Name, Volume: s.HomeVolume, Areas: areas}, nil
}

// rules are what a sandbox may do, in a form that is the same for the same
// rights. Where the gate is reached and what the machine limits is no right.
type rules struct {
	Net                                    NetMode
	Allow, Deny                            []string
	AllowAllNames                          bool
	Resolver                               string
	NoGate                                 NoGate
	AllowUserNS, AllowUnenforced, KeepRoot bool
	ExtraArgs                              []string
}

func (s Spec) rules() rules {
	texts := func(lines []policy.Line) []string {
		var list []string
		for _, l := range lines {
			list = append(list, strings.TrimSpace(l.Text))
		}
		slices.Sort(list) // rules add up (docs/adr/0012): neither order nor origin counts
		return slices.Compact(list)
	}
	return rules{
		Net: s.Net, Allow: texts(s.Gate.Allow), Deny: texts(s.Gate.Deny),
		AllowAllNames: s.Gate.AllowAllNames, Resolver: s.Gate.Resolver, NoGate: s.NoGate,
		AllowUserNS: s.AllowUserNS, AllowUnenforced: s.AllowUnenforced, KeepRoot: s.KeepRoot,
		ExtraArgs: s.ExtraArgs,
	}
}

// sign fills the codes in. The key is of this login and this user alone and lies
// beside the claims, in memory like them: a code on a disk or in a copy of the
// claims tells nobody whether a guessed secret is right.
func (s Spec) sign(c *claim, dir string) error {
	key, err := claimKey(filepath.Join(dir, claimsKey))
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.rules())
	if err != nil {
		return err
	}
	env, _, err := environ.Merge(s.Named)
	if err != nil {
		return err
	}
	c.Rules = code(key, "rules", text)
	c.Environment = code(key, "environment", env...)
	return nil
}

// code is the same for the same parts, and tells nothing else.
func code(key []byte, what string, parts ...[]byte) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s\n", what)
	for _, part := range parts {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// conflict is why the run of c can't start beside that of o, or nil.
func (c claim) conflict(o claim) *Failure {
	if newer.Check("", o.Format, claimFormat) != nil {
		return &Failure{Status: statusUsage,
			Err:  fmt.Errorf("a newer aisb has started the running sandbox %s, and what it uses can't be told here", o.Run),
			Hint: "use that aisb\nor wait until " + o.Run + " has ended; if the two may meet: --share"}
	}
	var differs []string
	if c.Rules != o.Rules {
		differs = append(differs, "other rules")
	}
	if c.Environment != o.Environment {
		differs = append(differs, "another environment")
	}
	if differs == nil {
		return nil
	}
	has := strings.Join(differs, " and ")
	if c.Volume != "" && c.Volume == o.Volume {
		return &Failure{Status: statusUsage,
			Err: fmt.Errorf("the home volume %q is in use by the running sandbox %s, which has %s", c.Volume, o.Run, has),
			Hint: "a file or a socket in it would join the two: take another one with --home NAME, or --ephemeral-home\n" +
				"or wait until " + o.Run + " has ended; if the two may meet: --share"}
	}
	for _, a := range c.Areas {
		for _, b := range o.Areas {
			if !a.Meets(b) {
				continue
			}
			err := fmt.Errorf("%q is in use by the running sandbox %s, which has %s", a.Path, o.Run, has)
			if a.Path != b.Path {
				err = fmt.Errorf("%q shares files with %q, which is in use by the running sandbox %s, which has %s", a.Path, b.Path, o.Run, has)
			}
			return &Failure{Status: statusUsage, Err: err,
				Hint: "a file or a socket in it would join the two: work in a copy, such as git clone --no-hardlinks\n" +
					"or wait until " + o.Run + " has ended; if the two may meet: --share"}
		}
	}
	return nil
}
