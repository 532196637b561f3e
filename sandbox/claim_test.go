package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// user is a spec that uses a directory and a home, with a rule and a variable.
func user(name, dir, home, rule, secret string) Spec {
	s := Spec{Name: name, HomeVolume: home, Net: NetAllow, Gate: proc.Config{Allow: []policy.Line{{Text: rule, Origin: "--allow"}}}}
	if dir != "" {
		s.Mounts = []mounts.Mount{{Source: dir, Target: "/project"}}
	}
	if secret != "" {
		s.Named = []environ.Var{{Name: "KEY", Value: []byte(secret)}}
	}
	return s
}

func TestClaim(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"/a/sub", "/b"} {
		if err := os.MkdirAll(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	one := user("one", dir+"/a", "home", "allowed.test", "s3cret")
	for _, c := range []struct {
		name   string
		change func(*Spec)
		part   string // of the error; "": none
		hint   string
	}{
		{"the same", func(*Spec) {}, "", ""},
		{"the same rules in another order", func(s *Spec) {
			s.Gate.Allow = []policy.Line{{Text: "allowed.test ", Origin: "file"}, {Text: "allowed.test"}}
		}, "", ""},
		{"other backend, limits, image, terminal", func(s *Spec) {
			s.Backend, s.Limits.Pids, s.Image, s.TTY, s.Env = Inner, "7", "other", true, []environ.Var{{Name: "TERM", Value: []byte("x")}}
		}, "", ""},
		{"another rule", func(s *Spec) { s.Gate.Allow[0].Text = "example.com" },
			`the home volume "home" is in use by the running sandbox one, which has other rules`, "--share"},
		{"a refusal less", func(s *Spec) { s.Gate.Deny = []policy.Line{{Text: "example.com"}} }, "other rules", "--home NAME, or --ephemeral-home"},
		{"another variable", func(s *Spec) { s.Named[0].Name = "KEYS" }, "another environment", "--share"},
		{"another value", func(s *Spec) { s.Named[0].Value = []byte("s3creT") }, "another environment", "--share"},
		{"both", func(s *Spec) { s.Named, s.Net = nil, NetFull }, "other rules and another environment", "--share"},
		{"a hatch", func(s *Spec) { s.AllowUserNS = true }, "other rules", "--share"},
		{"another rule and home, the same directory", func(s *Spec) { s.Gate.Allow[0].Text, s.HomeVolume = "example.com", "h2" },
			`/a" is in use by the running sandbox one`, "until one has ended"},
		{"another rule, no home, a directory in it", func(s *Spec) {
			s.Gate.Allow[0].Text, s.HomeVolume, s.Mounts[0].Source = "example.com", "", dir+"/a/sub"
		}, `/a/sub" shares files with "`, "--share"},
		{"another rule, no home, the directory above", func(s *Spec) {
			s.Gate.Allow[0].Text, s.HomeVolume, s.Mounts[0].Source = "example.com", "", dir
		}, `which is in use by the running sandbox one`, "--share"},
		{"another rule, no home, another file system that came along", func(s *Spec) {
			s.Gate.Allow[0].Text, s.HomeVolume, s.Mounts[0].Source = "example.com", "", dir+"/b"
			s.Nested = []mounts.Mount{{Source: dir + "/a"}}
		}, "is in use", "--share"},
		{"nothing in common", func(s *Spec) {
			s.Gate.Allow[0].Text, s.HomeVolume, s.Mounts[0].Source = "example.com", "h2", dir+"/b"
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Paths{Runtime: t.TempDir() + "/aisb"}
			first, err := p.claim(t.Context(), one)
			if err != nil {
				t.Fatal(err)
			}
			defer first.release()
			two := user("two", dir+"/a", "home", "allowed.test", "s3cret")
			c.change(&two)
			second, err := p.claim(t.Context(), two)
			if c.part == "" {
				if err != nil {
					t.Fatal(err)
				}
				second.release()
				return
			}
			f, ok := errors.AsType[*Failure](err)
			if !ok || f.Status != 2 || !strings.Contains(f.Error(), c.part) || !strings.Contains(f.Hint, c.hint) || !strings.Contains(f.Hint, "--share") {
				t.Fatalf("got %v (%+v), want %q and %q", err, f, c.part, c.hint)
			}
			two.Share = true
			second, err = p.claim(t.Context(), two)
			if err != nil || !slices.Equal(second.joined, []string{"one"}) {
				t.Fatalf("with --share: %+v, %v", second, err)
			}
			second.release()
			// A refusal leaves nothing, and the end of the first opens the way.
			first.release()
			first = nil
			two.Share = false
			if second, err = p.claim(t.Context(), two); err != nil {
				t.Fatalf("after the first one's end: %v", err)
			}
			second.release()
			if files, err := filepath.Glob(p.Runtime + "/" + claimsDir + "/[^.]*"); err != nil || len(files) > 0 {
				t.Errorf("left: %q, %v", files, err)
			}
		})
	}
}

// Both may only read: nothing of one comes to the other.
func TestClaimReadOnly(t *testing.T) {
	p, dir := Paths{Runtime: t.TempDir()}, t.TempDir()
	one, two := user("one", dir, "", "a.test", ""), user("two", dir, "", "b.test", "")
	one.Mounts[0].ReadOnly = true
	first, err := p.claim(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	defer first.release()
	if _, err := p.claim(t.Context(), two); err == nil {
		t.Error("one that writes what another reads was let in")
	}
	two.Mounts[0].ReadOnly = true
	second, err := p.claim(t.Context(), two)
	if err != nil {
		t.Fatal(err)
	}
	second.release()
}

// Of many that start at once with different rules, one comes first.
func TestClaimsAtOnce(t *testing.T) {
	p, dir := Paths{Runtime: t.TempDir() + "/aisb"}, t.TempDir()
	for range 20 {
		var won atomic.Int32
		var all, refused sync.WaitGroup
		const n = 8
		refused.Add(n - 1)
		for i := range n {
			all.Go(func() {
				name := fmt.Sprint("run", i)
				c, err := p.claim(t.Context(), user(name, dir, "", name+".test", ""))
				if f, ok := errors.AsType[*Failure](err); ok && f.Status == 2 {
					refused.Done()
					return
				}
				if err != nil {
					t.Error(err)
					refused.Done()
					return
				}
				won.Add(1)
				refused.Wait() // it lives until the others have been judged
				c.release()
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d came first", won.Load())
		}
	}
}

// A killed aisb holds nothing.
func TestClaimAfterKill(t *testing.T) {
	p, dir := Paths{Runtime: t.TempDir()}, t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestClaimAndWait$")
	cmd.Env = append(os.Environ(), claimAndWait+"="+p.Runtime, claimAndWait+"_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "claimed\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := p.claim(t.Context(), user("two", dir, "", "b.test", "")); err == nil {
		t.Error("no refusal while it lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	c, err := p.claim(t.Context(), user("two", dir, "", "b.test", ""))
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	defer c.release()
	if _, err := os.Lstat(filepath.Join(p.Runtime, claimsDir, "one")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the dead one wrote is still there: %v", err)
	}
}

const claimAndWait = "AISB_TEST_CLAIM"

// TestClaimAndWait is the process that TestClaimAfterKill kills.
func TestClaimAndWait(t *testing.T) {
	runtime := os.Getenv(claimAndWait)
	if runtime == "" {
		return
	}
	c, err := Paths{Runtime: runtime}.claim(t.Context(), user("one", os.Getenv(claimAndWait+"_DIR"), "", "a.test", ""))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("claimed")
	defer c.release()
	time.Sleep(time.Minute) // select{} would be a deadlock, of which the runtime dies
}

// No value of the environment is written down, nor anything that is the same in
// another login.
func TestClaimTellsNoSecret(t *testing.T) {
	const secret = "kh2-Zq-81-hfs"
	var codes []string
	for range 2 {
		p := Paths{Runtime: t.TempDir()}
		c, err := p.claim(t.Context(), user("one", "", "home", "a.test", secret))
		if err != nil {
			t.Fatal(err)
		}
		defer c.release()
		text, err := os.ReadFile(c.file.Name())
		if err != nil || strings.Contains(string(text), secret) || strings.Contains(string(text), "KEY") {
			t.Errorf("written down: %s, %v", text, err)
		}
		written, err := readClaim(c.file.Name())
		if err != nil || len(written.Rules) != 64 || len(written.Environment) != 64 {
			t.Errorf("%+v, %v", written, err)
		}
		codes = append(codes, written.Rules, written.Environment)
		for _, name := range []string{c.file.Name(), filepath.Join(p.Runtime, claimsDir, claimsKey)} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
	if codes[0] == codes[2] || codes[1] == codes[3] {
		t.Error("two logins have the same codes")
	}
}

// A claim that can't be read might be in the way: it is.
func TestClaimUnreadable(t *testing.T) {
	p := Paths{Runtime: t.TempDir()}
	c, err := p.claim(t.Context(), user("one", "", "home", "a.test", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	if err := os.Truncate(c.file.Name(), 3); err != nil {
		t.Fatal(err)
	}
	_, err = p.claim(t.Context(), user("two", "", "other", "b.test", ""))
	if f, ok := errors.AsType[*Failure](err); !ok || f.Err.Error() != fmt.Sprintf("%q is damaged: what the running sandbox one uses can't be told", c.file.Name()) || f.Hint != "end that one: aisb stop one" {
		t.Errorf("beside a run of which nothing is known: %v", err)
	}
	// What the system refuses says nothing of what is in the file.
	if _, err := readClaim(p.Runtime); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
	// Nor does a start wait for ever for one that hangs.
	lock, err := hold(filepath.Join(p.Runtime, claimsDir))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.claim(ctx, user("two", "", "", "b.test", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Every field of a Spec is either a right that two sandboxes must have in common,
// or named here as none.
func TestRulesAreWhole(t *testing.T) {
	none := []string{
		"Name", "Image", "Prelude", "Argv", "Env", "Named", "Workdir", "Mounts", "Nested", "HomeVolume", "Backend",
		"Protected", "Watch", "Quarantine", "Limits", "TmpfsSize", "MinFree", "TTY", "Rows", "Cols", "Share", "Publish", "Files", "Detached",
	}
	check := func(of reflect.Type, none ...string) {
		for f := range of.Fields() {
			_, counts := reflect.TypeFor[rules]().FieldByName(f.Name)
			if counts == slices.Contains(none, f.Name) {
				t.Errorf("%v.%s: is it a right (rules in claim.go) or none (this test)?", of, f.Name)
			}
		}
	}
	check(reflect.TypeFor[Spec](), append(none, "Gate")...) // its fields are looked at below
	check(reflect.TypeFor[proc.Config](), "Run", "Command", "Key", "Enclosed", "RunDir")
}
