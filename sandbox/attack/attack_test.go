//go:build linux

package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBatteryIsWellFormed: an id travels as a DNS label, in paths and in
// payloads, and every row of the threat table has an attack.
func TestBatteryIsWellFormed(t *testing.T) {
	id := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen, perRow := map[string]bool{}, map[string]int{}
	for _, a := range append(Battery(), Controls()...) {
		if !id.MatchString(a.ID) || len(token(a.ID)) > 63 {
			t.Errorf("%q is no id", a.ID)
		}
		if seen[a.ID] {
			t.Errorf("%q is there twice", a.ID)
		}
		seen[a.ID] = true
		if a.Try == "" || rows[a.Row] == "" && a.Row != control {
			t.Errorf("%s: row %q, try %q", a.ID, a.Row, a.Try)
		}
		perRow[a.Row]++
	}
	for row := range rows {
		if perRow[row] == 0 {
			t.Errorf("no attack on row %s", row)
		}
	}
	if len(Battery()) < 60 {
		t.Errorf("only %d attacks", len(Battery()))
	}
}

// TestDocs holds docs/attacks.md to the battery. What is missing is printed as
// it has to be there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## The battery\n")
	var want strings.Builder
	row := ""
	for _, a := range Battery() {
		if a.Row != row {
			row = a.Row
			fmt.Fprintf(&want, "\n### %s: %s\n\n", row, rows[row])
		}
		fmt.Fprintf(&want, "- `%s`: %s\n", a.ID, a.Try)
	}
	if table != want.String() {
		t.Errorf("the list under \"The battery\" must be:\n%s", want.String())
	}
}

func answers(over ...Answer) []Answer {
	list := []Answer{{Gate: "169.254.1.3:1"}, {Done: true}}
	for _, a := range Battery() {
		list = append(list, Answer{ID: a.ID, Finding: Finding{Held, "EPERM"}})
	}
	for _, c := range Controls() {
		list = append(list, Answer{ID: c.ID, Finding: Finding{Out, "it worked"}})
	}
	return append(list, over...)
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []Answer
		visits  []Visit
		extra   map[string]Finding
		verdict string
		id      string
		want    Verdict
	}{
		{name: "all held", answers: answers(), verdict: AllHeld, id: "tcp-public", want: Held},
		{name: "one out", answers: answers(Answer{ID: "tcp-public", Finding: Finding{Out, "connected"}}), verdict: SomeOut, id: "tcp-public", want: Out},
		{name: "a canary says more than the attack", answers: answers(), visits: []Visit{{"the canary", "udp-host"}}, verdict: SomeOut, id: "udp-host", want: Out},
		{name: "a canary's visitor whom nobody knows", answers: answers(), visits: []Visit{{"the canary", "GET /"}}, verdict: SomeOut, id: "canaries", want: Out},
		{name: "the host's finding", answers: answers(), extra: map[string]Finding{"session-canary": {Out, "1"}}, verdict: SomeOut, id: "session-canary", want: Out},
		{name: "something planted", answers: answers(Answer{ID: "plant-envrc", Finding: Finding{Out, "opened"}}), verdict: SomeOut, id: "plant-envrc", want: Out},
		{name: "an attack without an answer", answers: answers()[:40], verdict: Broken, id: "fence-proof", want: Unknown},
		{name: "a control that fails", answers: answers(Answer{ID: "may-tcp", Finding: Finding{Held, "EPERM"}}), verdict: Broken, id: "tcp-public", want: Held},
		{name: "out of a broken one is out all the same", answers: answers(Answer{ID: "may-tcp", Finding: Finding{Held, "EPERM"}}, Answer{ID: "mount", Finding: Finding{Out, "it worked"}}),
			verdict: SomeOut, id: "mount", want: Out},
		{name: "nothing", verdict: Broken, id: "mount", want: Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Judge(tt.answers, tt.visits, tt.extra)
			if r.Verdict != tt.verdict {
				t.Errorf("verdict %s, want %s (%q)", r.Verdict, tt.verdict, r.Broken)
			}
			if r.Held+r.Out+r.Unknown != len(Battery()) || len(r.Attacks) != len(Battery()) {
				t.Errorf("%d + %d + %d of %d", r.Held, r.Out, r.Unknown, len(Battery()))
			}
			for _, a := range r.Attacks {
				if a.ID == tt.id && a.Verdict != tt.want {
					t.Errorf("%s: %s, want %s: %s", a.ID, a.Verdict, tt.want, a.Seen)
				}
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		a    answered
		err  error
		want Verdict
	}{
		{a: answered{status: 403, reason: "not-listed"}, want: Held},
		{a: answered{status: 400, reason: "bad-request"}, want: Held},
		{a: answered{status: 505}, want: Held},
		{a: answered{status: 200}, want: Out},
		{a: answered{status: 101}, want: Out},
		{a: answered{status: 502, reason: "dns-failure"}, want: Out},
		{a: answered{status: 504, reason: "dial-failure"}, want: Out},
		{a: answered{status: 503, reason: "limit"}, want: Unknown},
		{err: io.EOF, want: Held},
		{err: unix.ECONNRESET, want: Held},
		{err: os.ErrDeadlineExceeded, want: Unknown},
		{err: errors.New("this session has no gate"), want: Unknown},
	} {
		if f := refuses(tt.a, tt.err); f.Verdict != tt.want {
			t.Errorf("%v, %v: %+v, want %s", tt.a, tt.err, f, tt.want)
		}
	}
}

func TestJudged(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Verdict
	}{
		{nil, Out}, {unix.EPERM, Held}, {unix.ENOSYS, Held}, {unix.EROFS, Held},
		{unix.EINVAL, Unknown}, {unix.ENOENT, Unknown}, {errors.New("malformed"), Unknown},
	} {
		if f := judged(tt.err); f.Verdict != tt.want {
			t.Errorf("%v: %+v, want %s", tt.err, f, tt.want)
		}
	}
	for want, list := range map[Verdict][]Finding{
		Unknown: {held("a"), unknown("b")}, Out: {unknown("a"), got("b"), held("c")}, Held: {held("a"), held("b")},
	} {
		if f := worst(list); f.Verdict != want {
			t.Errorf("%v: %+v, want %s", list, f, want)
		}
	}
	if f := worst(nil); f.Verdict != Unknown {
		t.Errorf("of nothing: %+v", f)
	}
}

func TestOwnedBy(t *testing.T) {
	for said, want := range map[string]string{
		"aisb-attack-tcp-host\n":                                "tcp-host",
		"\x00\x14AISB-ATTACK-udp-host\x07example":               "udp-host",
		"GET /x HTTP/1.1\r\nHost: aisb-attack-a1.example.com\r": "a1",
		"hello": "hello",
		"":      "",
	} {
		if got := ownedBy([]byte(said)); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
	if got := ownedBy(query("udp-public")); got != "udp-public" {
		t.Errorf("a query: got %q", got)
	}
}

// TestInsideRefusesAHost: what is tried inside is not tried anywhere else.
func TestInsideRefusesAHost(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Inside([]string{"pid1-kill"}, strings.NewReader("{}"), &stdout, &stderr); code != 2 || stdout.Len() > 0 {
		t.Errorf("status %d, said %q", code, stdout.String())
	}
}

// TestBatches: each attack that has to be tried inside is in one batch.
func TestBatches(t *testing.T) {
	list := append(Controls(), Battery()...)
	together, alone := batches(list)
	count := map[string]int{}
	for _, ids := range append(together, alone) {
		for _, id := range ids {
			count[id]++
		}
	}
	for _, a := range list {
		want := 1
		if a.Run == nil {
			want = 0
		}
		if count[a.ID] != want {
			t.Errorf("%s is in %d batches", a.ID, count[a.ID])
		}
	}
	for _, ids := range together {
		for _, a := range list {
			if a.ID == ids[0] && a.Own && len(ids) != 1 {
				t.Errorf("%s is not on its own: %q", a.ID, ids)
			}
		}
	}
}

// TestCanariesSee: what reaches a canary is noted, by the attack that sent it,
// so that silence means something. The attacks' own means are used.
func TestCanariesSee(t *testing.T) {
	c, err := Lay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := c.Plan
	reach := func(id string, try func(p Plan) Finding, where string) {
		t.Helper()
		p := p
		p.ID = id
		if f := try(p); f.Verdict != Out {
			t.Errorf("%s: %+v", id, f)
		}
		deadline := time.Now().Add(20 * time.Second)
		for time.Now().Before(deadline) {
			for _, v := range c.Visits() {
				if v.ID == id && strings.Contains(v.Where, where) {
					return
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("%s: no canary saw it: %+v", id, c.Visits())
	}
	reach("x-tcp", func(p Plan) Finding { return dialTCP(t.Context(), p, fmt.Sprintf("127.0.0.1:%d", p.LoopPort)) }, "loopback")
	reach("x-udp", func(p Plan) Finding { return sendUDP(p, fmt.Sprintf("127.0.0.1:%d", p.LoopPort)) }, "UDP")
	reach("x-any", func(p Plan) Finding { return dialTCP(t.Context(), p, fmt.Sprintf("127.0.0.1:%d", p.AnyPort)) }, "addresses")
	reach("x-abstract", func(p Plan) Finding { return unixDial(p, []string{"@" + p.Abstract}) }, "abstract")
	reach("x-allowed", func(p Plan) Finding {
		p.Gate = strings.Replace(p.Allowed, "host.containers.internal", "127.0.0.1", 1)
		return asks(unlisted("http"))(t.Context(), p)
	}, "allowed")
	reach("x-dns", func(p Plan) Finding { return sendUDP(p, c.Resolver()) }, "name server")
	for _, path := range p.Files {
		if f := read(path, p.Mark); f.Verdict != Out {
			t.Errorf("%s: %+v", path, f)
		}
	}
}

// TestSearchProc finds a mark where it is.
func TestSearchProc(t *testing.T) {
	const mark = "mark-of-a-test-of-attacks"
	cmd := exec.Command("sh", "-c", "read x; : "+mark)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if f := InArguments(mark); f.Verdict != Out {
		t.Errorf("not found: %+v", f)
	}
	if f := InArguments("no-such-mark-anywhere-" + fmt.Sprint(os.Getpid())); f.Verdict != Held {
		t.Errorf("%+v", f)
	}
}

// The brief table leaves out what was held, and counts it.
func TestBrief(t *testing.T) {
	r := Report{Held: 1, Out: 1, Unknown: 1, Attacks: []Result{
		{ID: "a", Row: "T1", Verdict: Held}, {ID: "b", Row: "T1", Verdict: Out}, {ID: "c", Row: "T2", Verdict: Unknown},
	}}
	text := r.Brief().String()
	for _, want := range []string{"GOT OUT  b", "unknown  c", "3 attacks: 1 held, 1 got out, 1 unknown"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "held     a") || len(r.Attacks) != 3 {
		t.Errorf("held ones are in it, or the report was changed:\n%s", text)
	}
}
