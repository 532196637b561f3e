package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// A file that an agent can have written gets it nothing that it doesn't hold itself.
func TestFilesOfTheAgent(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"project/sub/x": "", "project/values.env": "A=1\n", "project/names.env": "AISB_TEST_SECRET\n",
		"mine/values.env": "TOKEN=secret\n", "mine/names.env": "AISB_TEST_SECRET\n",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"project/link.env": "../mine/values.env", "project/up": "../mine", "project/same.env": "values.env", "mine/theirs.env": "../project/names.env",
		"mine/through.env": "../project/link.env",
		// A directory on the way: the user's own link to one of the project's, which is a link.
		"mine/way": "../project/up", "mine/round": "../project/sub/../../mine",
	} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AISB_TEST_SECRET", "x")
	writable := writableBy([]control.Info{{Name: "starting"}, {Project: handshake.Bytes(base + "/project")}})
	mounted := writableBy([]control.Info{{Project: "/p", Writable: []handshake.Bytes{"/p", handshake.Bytes(base + "/project")}}})
	if len(mounted) != 3 {
		t.Errorf("writable: %+v", mounted)
	}
	readOnly := []mounts.Mount{{Source: base + "/project", Target: mounts.Project, ReadOnly: true}}
	for name, refused := range map[string]string{
		"project/values.env": "", "project/same.env": "", "mine/values.env": "", "mine/names.env": "",
		"project/names.env": "would pass AISB_TEST_SECRET", "mine/theirs.env": "would pass AISB_TEST_SECRET",
		"project/link.env": "a link out of", "project/up/values.env": "a link out of", "mine/through.env": "a link out of",
		"mine/way/values.env": "a link out of", "mine/round/values.env": "a link out of",
	} {
		path := []string{filepath.Join(base, name)}
		for _, where := range [][]mounts.Mount{writable, mounted} {
			vars, _, err := namedEnv(path, nil, where)
			if refused == "" && (err != nil || len(vars) != 1) || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
				t.Errorf("%s: %v, %v", name, vars, err)
			}
		}
		theirs := refused != "" || strings.HasPrefix(name, "project/")
		if got := ruleFileWarnings(path, writable); (len(got) == 1) != theirs {
			t.Errorf("%s as a file of rules: %q", name, got)
		}
		if _, _, err := namedEnv(path, nil, readOnly); err != nil {
			t.Errorf("%s, read-only: %v", name, err)
		}
		// An earlier run could write there.
		if _, _, err := namedEnv(path, nil, written(readOnly)); (err != nil) != (refused != "") {
			t.Errorf("%s, read-only this time: %v", name, err)
		}
	}
}

// An agent that exchanges the file for a link while aisb looks at it gets nothing of
// what that leads to.
func TestSwappedEnvFile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, file, link := dir+"/project", dir+"/project/values.env", dir+"/project/link"
	err = errors.Join(os.Mkdir(project, 0o755), os.WriteFile(file, []byte("A=1\n"), 0o600),
		os.WriteFile(dir+"/secret", []byte("TOKEN=secret\n"), 0o600), os.Symlink("../secret", link))
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer swapper.Wait()
	defer close(end)
	writable := []mounts.Mount{{Source: project, Target: mounts.Project}}
	read, refused := 0, 0
	for i := 0; i < 200_000 && (read < 5000 || refused < 5000); i++ {
		vars, err := readEnvFile(file, writable)
		switch {
		case err != nil:
			refused++
		case len(vars) != 1 || vars[0].Name != "A":
			t.Fatalf("got %v", vars)
		default:
			read++
		}
	}
	if read == 0 || refused == 0 {
		t.Errorf("read %d times and refused %d times: nothing was exchanged meanwhile", read, refused)
	}
}

// Nor does one that leaves a FIFO hold aisb up, while the user's own may be one.
func TestEnvFileIsAPipe(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fifo := dir + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = readEnvFile(fifo, []mounts.Mount{{Source: dir, Target: mounts.Project}})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("the agent's: %v", err)
	}
	go func() { _ = os.WriteFile(fifo, []byte("A=1\n"), 0) }() // it waits for the reader
	if vars, err := readEnvFile(fifo, nil); err != nil || len(vars) != 1 {
		t.Errorf("the user's: %v, %v", vars, err)
	}
}

// Of a variable counts who has set it last.
func TestWhoseVariables(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Mkdir(dir+"/project", 0o755), os.WriteFile(dir+"/project/.env", []byte("A=1\nB=1\nC=1\n"), 0o600),
		os.WriteFile(dir+"/mine", []byte("B=2\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	writable := written([]mounts.Mount{{Source: dir + "/project", Target: mounts.Project, ReadOnly: true}, {Source: dir, Target: "/mnt", ReadOnly: true}})
	for _, row := range []struct {
		files, flags []string
		want         string
	}{
		{[]string{"/project/.env", "/mine"}, []string{"C=3"}, "map[A:true B:false C:false]"},
		{[]string{"/mine", "/project/.env"}, nil, "map[A:true B:true C:true]"},
	} {
		var files []string
		for _, f := range row.files {
			files = append(files, dir+f)
		}
		_, theirs, err := namedEnv(files, row.flags, writable)
		if got := fmt.Sprint(theirs); err != nil || got != row.want {
			t.Errorf("%q: %s, %v, want %s", row.files, got, err, row.want)
		}
	}
}
