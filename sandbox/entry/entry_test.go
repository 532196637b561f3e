package entry

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// readReport takes the report off the command's output.
func readReport(t *testing.T, from io.Reader) report {
	t.Helper()
	line, err := bufio.NewReader(from).ReadBytes('\n')
	var r report
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("report %q: %v", line, err)
	}
	return r
}

func names(o outcome) string {
	var list []string
	for _, s := range o.stages {
		list = append(list, string(s.Stage))
	}
	return strings.Join(list, " ")
}

func TestCommandRunsWithNothing(t *testing.T) {
	b := newBox(t, layout{})
	cfg := b.config(harnessName, "report")
	b.begin(cfg)
	o := b.started(3)
	if names(o) != "apply fence proof drop stdio start" {
		t.Fatalf("stages %q", names(o))
	}
	o.files[0].Close()
	r := readReport(t, o.files[1])
	if status := b.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	for _, p := range o.stage(handshake.Proved).Probes {
		want := map[string]string{"unlisted-name": "nonce", "control": "answered"}[p.Name]
		if want == "" {
			want = "refused"
		}
		if !p.OK || p.Saw != want {
			t.Errorf("probe %+v, want %q", p, want)
		}
	}
	if len(o.stage(handshake.Proved).Probes) != 6 {
		t.Errorf("%d probes were reported, want 6", len(o.stage(handshake.Proved).Probes))
	}
	t.Logf("%+v", o.stages)

	if r.UID != 1000 || r.GID != 1000 || r.Dir != "/project" || r.Session != r.PID || r.Group != r.PID {
		t.Errorf("identity: %+v", r)
	}
	if !slices.EqualFunc(r.Env, cfg.Env, slices.Equal) {
		t.Errorf("environment %q, want %q", r.Env, cfg.Env)
	}
	if got := strings.Join(r.Descriptors, " "); got != "0 1 2" {
		t.Errorf("descriptors %q", got)
	}
	if len(r.Init) < 2 {
		t.Errorf("pid 1 has %d threads, which tells nothing about all threads", len(r.Init))
	}
	for _, fields := range append(r.Init, r.Self) {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if fields[set] != "0000000000000000" {
				t.Errorf("%s of %s is %q", set, fields["Name"], fields[set])
			}
		}
		if fields["NoNewPrivs"] != "1" || fields["Seccomp"] != "2" || fields["Groups"] != "" || fields["Uid"] != "1000 1000 1000 1000" {
			t.Errorf("status: %v", fields)
		}
	}
	if len(r.InitSecrets) > 0 {
		t.Errorf("of pid 1 the command can open %q", r.InitSecrets)
	}
	if !strings.Contains(r.Direct, "refused") {
		t.Errorf("direct connection: %s", r.Direct)
	}
	if n := b.outside.came(); n > 0 {
		t.Errorf("the canary saw %d connections", n)
	}
	info, err := os.Stat(filepath.Join(b.layout.Project, "ran"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 101000 {
		t.Errorf("file in the project: %v %v", info, err)
	}
}

func TestTerminal(t *testing.T) {
	b := newBox(t, layout{})
	cfg := b.config(harnessName, "report")
	cfg.TTY, cfg.Rows, cfg.Cols = true, 33, 111
	b.begin(cfg)
	o := b.started(1)
	r := readReport(t, o.files[0])
	if r.Rows != 33 || r.Cols != 111 || !r.Controls || r.Session != r.PID {
		t.Errorf("terminal: %+v", r)
	}
	b.wait()
}

func TestStatusOfTheCommand(t *testing.T) {
	for _, c := range []struct {
		argv   []string
		dir    string
		status int
		error  string
	}{
		{argv: []string{harnessName, "exit", "77"}, status: 77},
		{argv: []string{harnessPath, "exit", "0"}, status: 0},
		{argv: []string{harnessName, "kill-self", "9"}, status: 137},
		{argv: []string{"no-such"}, status: 127, error: `command "no-such": no such file or directory`},
		{argv: []string{"/data"}, status: 126, error: `command "/data": permission denied`},
		{argv: []string{"/tmp"}, status: 126, error: `command "/tmp": is a directory`},
		{argv: []string{harnessName, "exit", "0"}, dir: "/gone", status: 126, error: `working directory "/gone": no such file`},
		{argv: []string{"/plain"}, status: 126},
	} {
		t.Run(strings.Join(c.argv, " "), func(t *testing.T) {
			b := newBox(t, layout{})
			cfg := b.config(c.argv...)
			if c.dir != "" {
				cfg.Dir = handshake.Bytes(c.dir)
			}
			b.begin(cfg)
			o := b.stages()
			if !strings.Contains(o.last().Error, c.error) || (c.error == "") != (o.last().Error == "") {
				t.Errorf("last stage %+v, want error %q", o.last(), c.error)
			}
			if c.error != "" && (o.last().Status != c.status || o.last().Hint == "") {
				t.Errorf("last stage %+v", o.last())
			}
			if c.argv[0] == "/plain" && len(o.files) == 3 {
				if said, _ := io.ReadAll(o.files[2]); !strings.Contains(string(said), `aisb-entry: error: run "/plain": exec format error`) {
					t.Errorf("on stderr: %q", said)
				}
			}
			if status := b.wait(); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			// A status that was handed over is the command's own.
			if o.status != nil {
				want := []byte{byte(c.status)}
				if o.last().Error != "" {
					want = nil
				}
				if got, err := io.ReadAll(o.status); err != nil || !bytes.Equal(got, want) {
					t.Errorf("handed over %v, %v, want %v", got, err, want)
				}
			}
		})
	}
}

func TestUnenforcedOnlyWhenAsked(t *testing.T) {
	b := newBox(t, layout{Pause: "applied"})
	cfg := b.config(harnessName, "report")
	cfg.AllowUnenforced = true
	b.begin(cfg)
	b.spoil("", "nft", "add table inet aisb { flags dormant; }")
	o := b.started(3)
	if names(o) != "apply fence drop stdio start" || !strings.Contains(o.stage(handshake.Fenced).Warning, "flags") {
		t.Fatalf("stages %+v", o.stages)
	}
	// Only the fence is given up, not the rest.
	if r := readReport(t, o.files[1]); r.Self["CapBnd"] != "0000000000000000" || r.UID != 1000 {
		t.Errorf("%+v", r)
	}
	b.wait()
}

func TestWithoutAnyRoute(t *testing.T) {
	none := func(b *box, argv ...string) handshake.Config { // as with --net none
		cfg := b.config(argv...)
		cfg.Fence.Policy.Gates, cfg.Fence.Proof = nil, handshake.Proof{}
		cfg.Fence.Policy.Probes = slices.DeleteFunc(cfg.Fence.Policy.Probes, func(p netpolicy.Probe) bool { return p.Name == "canary" })
		return cfg
	}
	b := newBox(t, layout{})
	b.outside.ip(t, b.cmd.Process.Pid, "link", "del", "inner")
	b.begin(none(b, harnessName, "exit", "4"))
	o := b.started(3)
	if status := b.wait(); status != 4 {
		t.Fatalf("status %d, stages %+v", status, o.stages)
	}
	for _, p := range o.stage(handshake.Proved).Probes {
		if p.Saw != "absent" {
			t.Errorf("%+v, want absent", p)
		}
	}
	// A link without routes is not what was asked for.
	b = newBox(t, layout{})
	b.outside.ip(t, b.cmd.Process.Pid, "route", "del", "default")
	b.outside.ip(t, b.cmd.Process.Pid, "-6", "route", "del", "default")
	b.begin(none(b, harnessName, "exit", "4"))
	o = b.stages()
	if status := b.wait(); status != 78 || !strings.Contains(o.last().Error, `link "inner" is up`) {
		t.Errorf("status %d, stages %+v", status, o.stages)
	}
}

func TestEndOfAisbEndsAll(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "sleep"))
	o := b.started(3)
	if line, err := bufio.NewReader(o.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	began := time.Now()
	b.conn.Close()
	if status := b.wait(); status != killed {
		t.Errorf("status %d, want %d", status, killed)
	}
	if took := time.Since(began); took > 10*time.Second { // at once, as far as a busy machine goes
		t.Errorf("it took %v", took)
	}
	for _, f := range []*os.File{o.files[1], o.status} {
		if rest, err := io.ReadAll(f); err != nil || len(rest) > 0 {
			t.Errorf("after the end: %q, %v", rest, err)
		}
	}
}

func TestEndOfAisbBeforeTheGo(t *testing.T) {
	b := newBox(t, layout{})
	if err := json.NewEncoder(b.write).Encode(b.layout); err != nil {
		t.Fatal(err)
	}
	b.write.Close()
	var hello handshake.Stage
	if _, err := b.conn.Recv(&hello); err != nil {
		t.Fatal(err)
	}
	b.conn.Close()
	if status := b.wait(); status != killed || b.stderr.String() != "" {
		t.Errorf("status %d, said %q", status, &b.stderr)
	}
	if _, err := os.Stat(filepath.Join(b.layout.Project, "ran")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command ran (%v)", err)
	}
}

func TestPidOne(t *testing.T) {
	for _, what := range []string{"orphans", "signals"} {
		t.Run(what, func(t *testing.T) {
			b := newBox(t, layout{})
			b.begin(b.config(harnessName, what))
			o := b.started(3)
			said, _ := io.ReadAll(o.files[1])
			if status := b.wait(); status != 0 {
				t.Errorf("status %d: %s", status, said)
			}
		})
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "await"))
	o := b.started(3)
	if line, err := bufio.NewReader(o.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	for _, c := range []handshake.Control{{}, {Signal: -1}, {Signal: 65}, {Signal: int(unix.SIGUSR1)}} {
		if err := b.conn.Send(c); err != nil {
			t.Fatal(err)
		}
	}
	if status := b.wait(); status != int(unix.SIGUSR1) {
		t.Errorf("status %d", status)
	}
	// What podman stop does: SIGTERM to pid 1 from outside.
	b = newBox(t, layout{})
	b.begin(b.config(harnessName, "await"))
	o = b.started(3)
	bufio.NewReader(o.files[1]).ReadString('\n')
	if err := b.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := b.wait(); status != int(unix.SIGTERM) {
		t.Errorf("status %d", status)
	}
}
