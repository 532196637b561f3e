package image

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/preset"
)

// rules of each preset, to compare.
func rules(list []preset.Preset) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		for _, h := range p.Core {
			out[p.Name] = strings.TrimSpace(out[p.Name] + " " + h.Rule)
		}
	}
	return out
}

func TestParseSources(t *testing.T) {
	const s = "\naisb-section "
	for name, c := range map[string]struct {
		out  string
		want map[string]string
	}{
		"nothing": {"", map[string]string{}},
		"no tool": {s + "npm\n" + s + "go\n" + s + "pip\n" + s + "debian\n", map[string]string{}},
		"debian": {s + "debian\nhttp://deb.test/debian/\nhttp://deb.test/debian/\nhttps://sec.test/x\ncdrom://[Debian]/\nfile:/srv/x\nmirror+file:/etc/x\n",
			map[string]string{"debian": "deb.test:80 sec.test:443"}},
		"npm": {s + "npm\n" + `{"registry":"https://npm.test/","//npm.test/:_auth":"secret","@b:registry":"https://b.test:8443/r/","@a:registry":"http://user:secret@A.test/","json":true}`,
			map[string]string{"npm": "npm.test:443 a.test:80 b.test:8443"}},
		"npm, a registry with an address": {s + "npm\n" + `{"registry":"http://[2001:DB8::1]:4873/"}`,
			map[string]string{"npm": "[2001:db8::1]:4873"}},
		"npm, not JSON":   {s + "npm\nnpm error\n", map[string]string{}},
		"npm, not a host": {s + "npm\n" + `{"registry":"https://a_b$(id).test/"}`, map[string]string{}},
		"go": {s + "go\n" + `{"GOPROXY":"https://one.test,https://two.test/x|direct","GOSUMDB":"sum.test"}`,
			map[string]string{"go": "one.test:443 two.test:443 sum.test:443"}},
		"go, sum with a key": {s + "go\n" + `{"GOPROXY":"https://one.test","GOSUMDB":"sum.test+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"}`,
			map[string]string{"go": "one.test:443 sum.test:443"}},
		"go, sum with a URL": {s + "go\n" + `{"GOPROXY":"https://one.test","GOSUMDB":"sum.test https://mirror.test/sumdb"}`,
			map[string]string{"go": "one.test:443 mirror.test:443"}},
		"go, no sum":    {s + "go\n" + `{"GOPROXY":"https://one.test","GOSUMDB":"off"}`, map[string]string{"go": "one.test:443"}},
		"go, all off":   {s + "go\n" + `{"GOPROXY":"off","GOSUMDB":"sum.test"}`, map[string]string{}},
		"pip's default": {s + "pip\nown https://index.test/simple\nown https://files.test\n", map[string]string{"pip": "index.test:443 files.test:443"}},
		"pip, another index": {s + "pip\nown https://index.test/simple\nown https://files.test\nglobal.index-url='https://u:secret@mirror.test/simple'\n",
			map[string]string{"pip": "mirror.test:443"}},
		"pip, more indexes": {s + "pip\nown https://index.test/simple\n:env:.extra-index-url='https://x.test/simple\\nhttps://y.test/simple'\ninstall.find-links='https://index.test/'\nglobal.timeout='60'\n",
			map[string]string{"pip": "index.test:443 x.test:443 y.test:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			list := ParseSources([]byte(c.out))
			if list == nil {
				t.Error("no list: that would mean that nothing is known")
			}
			if got := rules(list); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for _, p := range list {
				if err := p.Check(); err != nil || p.Title == "" || p.Kind != preset.Package {
					t.Errorf("%+v: %v", p, err)
				}
			}
		})
	}
}

func TestParseLabels(t *testing.T) {
	got := rules(ParseLabels([]byte(`{"` + LabelPreset + `npm":"a.test:443  b.test","` + LabelPreset + `cargo":"c.test","x":"y"}`)))
	if want := map[string]string{"npm": "a.test:443 b.test"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	for _, text := range []string{"null", "{}", "", "[]"} {
		if got := ParseLabels([]byte(text)); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The script is one that sh reads, and says nothing where no tool is.
func TestSourcesScript(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", sourcesScript)
	cmd.Env = []string{"PATH=/nowhere", "HOME=/nowhere"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range PackageTools() {
		if !strings.Contains(string(out), "\naisb-section "+tool+"\n") {
			t.Errorf("no section %s in %q", tool, out)
		}
	}
	if list := ParseSources(out); len(list) > 0 {
		t.Errorf("got %v", list)
	}
}

// What a build notes is found again, and nil means that nothing is known.
func TestRecordSources(t *testing.T) {
	r := Records{Dir: t.TempDir()}
	s := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi")}
	list := ParseSources([]byte("\naisb-section npm\n{\"registry\":\"https://npm.test/\"}\n"))
	for _, c := range []struct {
		save  []preset.Preset
		known bool
	}{{nil, false}, {list, true}, {[]preset.Preset{}, true}} {
		if err := r.Save(s, c.save, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		asked := s
		asked.BaseID = ""
		got, known, err := r.Sources(asked)
		if err != nil || known != c.known || len(got) != len(c.save) {
			t.Errorf("saved %v, found %v, %v, %v", c.save, got, known, err)
		}
		got, known, err = r.SourcesOf(s.Tag())
		if err != nil || known != c.known || len(got) != len(c.save) {
			t.Errorf("by tag: saved %v, found %v, %v, %v", c.save, got, known, err)
		}
	}
	if _, known, err := r.SourcesOf("localhost/aisb:other"); known || err != nil {
		t.Errorf("another image is known: %v", err)
	}
	for tag, want := range map[string]bool{s.Tag(): true, "localhost/aisb:other": false, "": false} {
		if built, err := r.Built(tag); built != want || err != nil {
			t.Errorf("built %q: %v, %v", tag, built, err)
		}
	}
}
