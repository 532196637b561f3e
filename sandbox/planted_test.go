package sandbox

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// The list of what was planted holds the names as they are, and drives no terminal.
func TestPlantedList(t *testing.T) {
	name := "\u009b2J\x7f\u202eż\U0001f600\x1b]0;x\a/.envrc"
	p := Planted{List: t.TempDir() + "/planted.json", Outcome: snapshot.Outcome{
		Changes: []protect.Change{{Path: name, New: true, Rule: protect.UserRule}},
	}}
	if err := p.keep(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.List)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		t.Errorf("%q", text)
	}
	var list []plantedRecord
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 || list[0].Path != name {
		t.Errorf("%v, %+v", err, list)
	}
}
