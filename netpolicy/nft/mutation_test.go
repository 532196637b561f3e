package nft

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/aisb-dev/aisb/tests/mutants"
)

// Whatever single thing is off in what the kernel holds, Verify refuses it. The
// list comes from the ruleset itself, so that a new rule is in it.
func TestEveryMutationIsSeen(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		kinds := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(specs())) {
			rs := render(t, specs()[name])
			for _, m := range mutants.All(rs) {
				if m.Ruleset != nil {
					// Faster than nft(8). The table alone is enough: what lies beside it
					// comes last.
					removeTable(t)
					if err := Apply(*m.Ruleset); err != nil {
						t.Fatalf("%s: %s: %v", name, m.Name, err)
					}
				} else {
					nft(t, m.Script, "-f", "-")
				}
				if err := Verify(rs); !errors.Is(err, ErrMismatch) {
					t.Errorf("%s: %s: got %v, want a mismatch", name, m.Name, err)
				}
				kinds[m.Kind]++
			}
			nft(t, "flush ruleset\n"+rs.String(), "-f", "-")
			if err := Verify(rs); err != nil {
				t.Errorf("%s: the ruleset itself: %v", name, err)
			}
		}
		t.Log(mutants.Count(kinds))
		if kinds["rule"]+kinds["verdict"]+kinds["match"] < 300 {
			t.Errorf("too few mutations were tried: %v", kinds)
		}
	})
}
