package image

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuildArgs(t *testing.T) {
	s := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi")}
	got := s.BuildArgs("/ctx", BuildOptions{Network: "host", Fresh: true})
	for _, want := range [][]string{
		{"--from", "localhost/aisb-from:" + s.Tag()[len(Repository)+1:]}, {"--pull=never"}, {"--http-proxy=false"}, {"--tag", s.Tag()}, {"--network", "host"}, {"--no-cache"},
	} {
		i := slices.Index(got, want[0])
		if i < 0 || !slices.Equal(got[i:i+len(want)], want) {
			t.Errorf("%v lacks %v", got, want)
		}
	}
	if last := got[len(got)-1]; last != "/ctx" {
		t.Errorf("the context is %q", last)
	}
	if plain := s.BuildArgs("/ctx", BuildOptions{}); slices.Contains(plain, "--network") || slices.Contains(plain, "--no-cache") {
		t.Errorf("options appear unasked: %v", plain)
	}
}

// Lines of podman 5.4.2, shortened.
func TestSteps(t *testing.T) {
	out := `[1/4] STEP 1/6: FROM 2167 AS tools
[1/4] STEP 2/6: USER 0:0
--> 1487e68798bc
[1/4] STEP 4/6: RUN set -eu;     apt-get update
Get:1 InRelease [140 kB]
STEP 9/9: RUN [9/9] STEP 9/9: no
[7/4] STEP 2/2: RUN beyond
[4/4] STEP 99/99: RUN beyond
[3/4] STEP 2/2: RUN npm`
	s := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi")}
	var log bytes.Buffer
	var got []string
	err := s.Steps(strings.NewReader(out), &log, func(st Step) {
		got = append(got, st.Title)
		if st.N != len(got) || st.Of < st.N {
			t.Errorf("step %q is %d of %d", st.Title, st.N, st.Of)
		}
	})
	want := []string{"install developer tools", "install pi coding agent"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if log.String() != out {
		t.Errorf("the log is not what podman wrote:\n%s", log.String())
	}
}

func TestParseList(t *testing.T) {
	out := `[{"Id":"aa","Names":["localhost/aisb:0123","localhost/other:1","localhost/aisb:4567"],"Created":1700000000,"Size":12,
	  "Labels":{"dev.aisb.harness":"pi","dev.aisb.base":"ubuntu:24.04"}},
	  {"Id":"aa","Names":["localhost/aisb:0123","localhost/other:1","localhost/aisb:4567"],"Created":1700000000,"Size":12},
	  {"Id":"bb","Names":null,"Labels":{"dev.aisb.format":"1"}}]`
	list, err := ParseList([]byte(out))
	if err != nil || len(list) != 2 || list[0].Ref != "localhost/aisb:0123" || list[1].Ref != "localhost/aisb:4567" || list[0].Harness != "pi" {
		t.Errorf("got %+v, %v", list, err)
	}
	list, err = ParseList([]byte("[]"))
	if data, _ := json.Marshal(list); err != nil || string(data) != "[]" {
		t.Errorf("no images are %s, %v", data, err)
	}
	if _, err := ParseList([]byte("Error: no")); err == nil {
		t.Error("an error text was parsed")
	}
}

// podman untag IMAGE, without a name, takes all names of the image away.
func TestUnaliasTakesOneName(t *testing.T) {
	s := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi")}
	alias := s.AliasArgs()[2]
	if got := s.UnaliasArgs(); !slices.Equal(got, []string{"untag", alias, alias}) {
		t.Errorf("got %q", got)
	}
}

// As podman 5.4.2 lists them, after a build was ended by a signal.
func TestParseWorking(t *testing.T) {
	containers := `[
	  {"Id":"c1","ImageID":"base","Command":["buildah"],"Names":["aisb-from-working-container-1"],"State":"storage"},
	  {"Id":"c2","ImageID":"` + idOne + `","Command":["buildah"],"Names":["1111-working-container"],"State":"storage"},
	  {"Id":"c3","ImageID":"` + idTwo + `","Command":["buildah"],"Names":["debian-working-container"],"State":"storage"},
	  {"Id":"c4","ImageID":"` + idOne + `","Command":["buildah"],"Names":["running"],"State":"running"},
	  {"Id":"c5","ImageID":"` + idOne + `","Command":null,"Names":["aisb-x-012345"],"State":"exited"}]`
	got, err := ParseWorking([]byte(containers), []byte("sha256:"+idOne+"\n"))
	if want := []string{"c1", "c2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q: the user's own must stay", got, err, want)
	}
	if got, err := ParseWorking([]byte("[]"), nil); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %q, %v", got, err)
	}
	if _, err := ParseWorking([]byte("Error"), nil); err == nil {
		t.Error("an error text was parsed")
	}
}

func TestParseID(t *testing.T) {
	for _, in := range []string{idOne + "\n", "sha256:" + idOne} {
		if got, err := ParseID([]byte(in)); err != nil || got != idOne {
			t.Errorf("ParseID(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "latest", idOne + "\n" + idTwo} {
		if got, err := ParseID([]byte(in)); err == nil {
			t.Errorf("ParseID(%q) = %q", in, got)
		}
	}
}

func TestRecords(t *testing.T) {
	r := Records{Dir: filepath.Join(t.TempDir(), "images")}
	asked := Spec{Base: DefaultBase, Harness: harness(t, "pi")}
	if _, ok, err := r.Find(asked); ok || err != nil {
		t.Fatalf("an image is known before any was built (%v)", err)
	}
	built := asked
	built.BaseID = idOne
	if err := r.Save(built, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	got, ok, err := r.Find(asked)
	if err != nil || !ok || got.Tag() != built.Tag() {
		t.Fatalf("got %v, %v, %v, want %s", got.Tag(), ok, err, built.Tag())
	}
	other := asked
	other.Packages = []string{"golang-go"}
	if _, ok, _ := r.Find(other); ok {
		t.Error("another spec found the image")
	}
	built.BaseID = idTwo // a newer base image
	if err := r.Save(built, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := r.Find(asked); err != nil || !ok || got.Tag() != built.Tag() {
		t.Errorf("got %v, %v, %v, want the newer build %s", got.Tag(), ok, err, built.Tag())
	}
	if all, err := r.All(); err != nil || len(all) != 1 || all[0].Tag != built.Tag() || all[0].Harness != "pi" {
		t.Errorf("all are %+v, %v", all, err)
	}
	if err := r.Forget(built.Key()); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := r.Find(asked); ok {
		t.Error("the image is still known after Forget")
	}
}

// A record that is damaged, or whose tag isn't that of its content, is none.
func TestRecordsDamaged(t *testing.T) {
	asked := Spec{Base: DefaultBase, Harness: harness(t, "pi")}
	for name, text := range map[string]string{
		"empty":       "",
		"not JSON":    "tag",
		"other tag":   `{"key":"` + asked.Key() + `","base":"ubuntu:24.04","base_id":"` + idOne + `","tag":"localhost/aisb:evil"}`,
		"no ID":       `{"key":"` + asked.Key() + `","base":"ubuntu:24.04","tag":"` + asked.Tag() + `"}`,
		"other image": `{"key":"` + asked.Key() + `","base":"debian","base_id":"` + idOne + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := Records{Dir: t.TempDir()}
			if err := os.WriteFile(r.path(asked.Key()), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, ok, err := r.Find(asked); ok || err != nil {
				t.Errorf("found %s (%v)", got.Tag(), err)
			}
		})
	}
}
