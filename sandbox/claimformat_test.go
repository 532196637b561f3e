package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClaimsOfOtherFormats: what a newer aisb's sandbox uses can't be told, so that nothing
// starts beside it unless the two may meet; one from before there were formats is read.
func TestClaimsOfOtherFormats(t *testing.T) {
	for text, says := range map[string]string{
		`{"format":2,"volume":"h","areas":{"of":"another kind"}}`: "a newer aisb has started the running sandbox aisb-other",
		`{"format":-1}`: "a newer aisb has started",
		`{"run":"aisb-other","rules":"x","environment":"y","volume":"h","areas":[]}`: `the home volume "h" is in use by the running sandbox aisb-other`,
		`{"run":"aisb-other","rules":"x","environment":"y","volume":"k","areas":[]}`: "",
	} {
		p := testPaths(t)
		dir := filepath.Join(p.Runtime, claimsDir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		other, err := os.OpenFile(filepath.Join(dir, "aisb-other"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil { // it lives
			t.Fatal(err)
		}
		spec := user("aisb-mine", "", "h", "example.com", "")
		_, err = p.claim(context.Background(), spec)
		if failure, ok := errors.AsType[*Failure](err); says != "" && (!ok || !strings.Contains(err.Error(), says) || !strings.Contains(failure.Hint, "--share")) || says == "" && err != nil {
			t.Errorf("%s: %v", text, err)
		}
		spec.Name, spec.Share = "aisb-too", true
		if c, err := p.claim(context.Background(), spec); err != nil || says != "" && len(c.joined) != 1 {
			t.Errorf("%s with --share: %+v, %v", text, c, err)
		}
		if used, err := p.HomesInUse(context.Background()); err != nil || strings.Contains(text, `"volume":"h"`) && len(used["h"]) == 0 {
			t.Errorf("%s: homes in use %v, %v", text, used, err)
		}
		other.Close()
	}
}
