//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// homeRun runs a script with a kept home.
func homeRun(t *testing.T, home, script string) outcome {
	t.Helper()
	o := call{dir: project(t)}.do(t, "run", "--image", testImage, "--net", "none", "--home", home, "--", "/bin/sh", "-c", script)
	o.wantStatus(t, 0)
	return o
}

// listedHome is a line of 'aisb home ls --json'.
type listedHome struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	LastUsed time.Time `json:"last_used"`
	UsedBy   []string  `json:"used_by"`
}

func listedHomes(t *testing.T) []listedHome {
	t.Helper()
	o := call{dir: project(t)}.do(t, "home", "ls", "--json")
	o.wantStatus(t, 0)
	var list []listedHome
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestHomeReceipt: the receipt names what of a kept home later shells and tools will
// run and this run has changed, and nothing else.
func TestHomeReceipt(t *testing.T) {
	const home = "aisb-e2e-receipt"
	defer asUser(t, "podman", "volume", "rm", "--force", home)
	const line = "aisb: start-up files changed in the home " + home + ": "
	o := homeRun(t, home, "true")
	wantNot(t, "the receipt of a new home", o.stderr, "start-up files")
	o = homeRun(t, home, `cd; mkdir -p .ssh .config/git; echo x >.ssh/config; echo y >>.bashrc; echo z >.config/git/config; echo notes >notes`)
	wantIn(t, "receipt", o.stderr, line, ".bashrc (", ".config/git/config (new)", ".ssh/config (new)")
	wantNot(t, "receipt", o.stderr, "notes")
	o = homeRun(t, home, "cat ~/.ssh/config; echo more >>~/notes")
	wantNot(t, "the receipt of a run that changed none", o.stderr, "start-up files")
	// What an agent could put there to lead the host astray leads nowhere.
	o = homeRun(t, home, `cd; rm .bashrc .ssh/config; ln -s /etc/shadow .bashrc; mkfifo .profile.d .zshrc; mv .ssh s; ln -s / .ssh; chmod 0 .config`)
	wantIn(t, "receipt", o.stderr, line, ".bashrc (changed)", ".ssh (new)", ".ssh/config (removed)", ".zshrc (new)", ".config (new)")
}

// TestHomes: ls, inspect and rm see the homes that aisb has made, and no other
// volume of podman's.
func TestHomes(t *testing.T) {
	const home, foreign = "aisb-e2e-kept", "aisb-e2e-foreign"
	asUser(t, "podman", "volume", "create", foreign)
	defer asUser(t, "podman", "volume", "rm", "--force", home, foreign)
	homeRun(t, foreign, "echo >~/.bashrc")
	homeRun(t, home, "cd; mkdir -p .claude; echo a-login >.claude/.credentials.json; echo alias >.bash_aliases; head -c 3000000 /dev/zero >big")
	c := call{dir: project(t)}

	list := listedHomes(t)
	i := slices.IndexFunc(list, func(h listedHome) bool { return h.Name == home })
	if i < 0 || list[i].Size < 3e6 || time.Since(list[i].LastUsed) > time.Minute || len(list[i].UsedBy) > 0 {
		t.Fatalf("%+v", list)
	}
	if slices.ContainsFunc(list, func(h listedHome) bool { return h.Name == foreign }) {
		t.Errorf("a volume that aisb has not made is listed: %+v", list)
	}
	o := c.do(t, "home", "inspect", home)
	o.wantStatus(t, 0)
	wantIn(t, "inspect", o.stdout, "credential", ".claude/.credentials.json", "shell", ".bash_aliases")
	wantNot(t, "inspect", o.stdout, "a-login", "alias\n", "big")
	o = c.do(t, "home", "inspect", foreign)
	o.wantStatus(t, 1)
	wantIn(t, "inspect of another volume", o.stderr, `there is no home "`+foreign+`"`, "which aisb has not made")
	o = c.do(t, "home", "rm", "--yes", foreign)
	o.wantStatus(t, 1)
	asUser(t, "podman", "volume", "inspect", foreign)

	l := c.startAny(t, "run", "--image", testImage, "--net", "none", "--home", home, "--", "/bin/sh", "-c", "echo ready; read x")
	l.waitOut("ready\n")
	name := containerName(t)
	wantIn(t, "ls", c.do(t, "home", "ls").stdout, "USED BY", home, name)
	o = c.do(t, "home", "rm", "--yes", home)
	o.wantStatus(t, 1)
	wantIn(t, "rm of a home in use", o.stderr, `the home "`+home+`" is in use by `+name)
	l.say("")
	l.wait(runTimeout).wantStatus(t, 0)

	o = c.do(t, "home", "rm", home)
	o.wantStatus(t, 2)
	wantIn(t, "rm without a terminal", o.stderr, "remove the home "+home, "--yes")
	homeRun(t, home, "test -e ~/big")
	o = c.do(t, "home", "rm", "--yes", home)
	o.wantStatus(t, 0)
	if o.stdout != home+"\n" {
		t.Errorf("rm said %q", o.stdout)
	}
	wantNot(t, "podman's list", asUser(t, "podman", "volume", "ls", "-q"), home)

	// One that was removed behind aisb's back is made anew, as a home.
	homeRun(t, home, "test ! -e ~/big")
	asUser(t, "podman", "volume", "rm", home)
	homeRun(t, home, "echo >~/again")
	if list := listedHomes(t); !slices.ContainsFunc(list, func(h listedHome) bool { return h.Name == home }) {
		t.Errorf("%+v", list)
	}
}

// TestHomeRmAsks on a terminal, and takes anything but yes for no.
func TestHomeRmAsks(t *testing.T) {
	const home = "aisb-e2e-asked"
	defer asUser(t, "podman", "volume", "rm", "--force", home)
	homeRun(t, home, "true")
	for _, answer := range []string{"n", "", "y"} {
		x := call{dir: project(t)}.anyOnTerminal(t, 24, 80, "home", "rm", home)
		x.waitScreen("[y/N] ", 1)
		x.typed(answer + "\n")
		<-x.ended
		if kept := strings.Contains(x.screen.String(), "nothing was removed"); kept == (answer == "y") {
			t.Errorf("%q: %s", answer, x.screen)
		}
	}
	wantNot(t, "podman's list", asUser(t, "podman", "volume", "ls", "-q"), home)
}
