package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// TestProtocol holds what goes over the sockets, as it is on the wire. A difference means
// that an aisb of yesterday and one of today speak differently although both call it the
// same version: raise Protocol when one would take the other's word for something else,
// and write the file of the new version with AISB_WRITE_PROTOCOL=1.
func TestProtocol(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	exec := handshake.Exec{Argv: handshake.Args{"ls", "-l"}, Env: [][]byte{[]byte("A=b")}, Dir: "/project", TTY: true, Rows: 24, Cols: 80}
	var got bytes.Buffer
	for _, m := range []struct {
		what string
		v    any
	}{
		{"info", Request{Protocol: Protocol, Op: OpInfo}},
		{"stop", Request{Protocol: Protocol, Op: OpStop, Grace: time.Second}},
		{"exec", Request{Protocol: Protocol, Op: OpExec, Exec: &exec}},
		{"attach", Request{Protocol: Protocol, Op: OpAttach, Attach: &Attach{Wait: true, Rows: 24, Cols: 80}}},
		{"answer", Answer{Protocol: Protocol}},
		{"refusal", Answer{Protocol: Protocol, Err: &Error{Text: "no", Hint: "don't", Status: 125}}},
		{"answer to info", Answer{Protocol: Protocol, Info: &Info{
			Name: "aisb-x", State: Running, PID: 7, Project: "/p", Command: handshake.Args{"x"}, Started: at, Net: "allow", Backend: "inner",
			Image: "localhost/x:1", Ports: []Port{{8080, 80}}, Writable: []handshake.Bytes{"/p"}, Detached: true, Aisb: "1.0"}}},
		{"to an exec's command", handshake.Control{Signal: 15}},
		{"its end", handshake.Stage{Stage: handshake.Exit, Status: 7}},
		{"that it can't start", handshake.Stage{Stage: handshake.Stdio, Error: "no", Hint: "don't", Status: 127}},
		{"to what is attached to", AttachControl{Signal: 10, Rows: 24, Cols: 80}},
		{"its end", AttachEnd{GoesOn: "taken", Status: 7, Words: []string{"aisb: ended"}}},
	} {
		text, err := json.Marshal(m.v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n\t%s\n", m.what, text)
	}
	path := filepath.Join("testdata", fmt.Sprintf("protocol-%d", Protocol))
	if os.Getenv("AISB_WRITE_PROTOCOL") != "" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is\n%s\nand the messages are\n%s", path, want, got.Bytes())
	}
}

// raw sends a text as a client of any age would, and returns what it hears.
func raw(t *testing.T, runtime, text string) (head, Answer) {
	t.Helper()
	c := dial(t, runtime, "r")
	if err := c.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := c.conn.Send(json.RawMessage(text)); err != nil {
		t.Fatal(err)
	}
	var answer json.RawMessage
	m, err := c.conn.Recv(&answer)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	m.Close()
	var h head
	var a Answer
	if err := errors.Join(json.Unmarshal(answer, &h), json.Unmarshal(answer, &a)); err != nil {
		t.Fatal(err)
	}
	return h, a
}

// TestClientsOfOtherVersions: an older one is served, a newer one hears at once that it
// isn't, and can still look and end.
func TestClientsOfOtherVersions(t *testing.T) {
	runtime := t.TempDir()
	stopped := make(chan time.Duration, 8)
	served := make(chan string, 8)
	s := serve(t, runtime, "r", Handler{
		Stop: func(grace time.Duration) { stopped <- grace },
		Exec: func(_ context.Context, x handshake.Exec) ([]*os.File, error) {
			served <- x.Argv[0]
			return nil, nil
		},
		Attach: func(context.Context, Attach) ([]*os.File, error) { return nil, nil },
	})
	ls := `"exec":{"Argv":["bHM="]}`
	for text, says := range map[string]string{
		`{"op":"info"}`:                              "",
		`{"protocol":1,"op":"info"}`:                 "",
		`{"protocol":99,"op":"info","what":{"x":1}}`: "",
		`{"op":"exec",` + ls + `}`:                   "", // from before there were versions
		`{"protocol":1,"op":"exec",` + ls + `}`:      "",
		`{"protocol":2,"op":"exec",` + ls + `}`:      "an older one: it knows version 1 of the control protocol, this one speaks 2",
		`{"protocol":2,"op":"exec","exec":"ls"}`:     "an older one: it knows version 1",
		`{"protocol":-1,"op":"exec",` + ls + `}`:     "an older one",
		`{"protocol":2,"op":"attach","attach":{}}`:   "an older one",
		`{"op":"attach","attach":{"wait":true}}`:     "",
		`{"protocol":1,"op":"exec","exec":"ls"}`:     "doesn't understand",
		`{"protocol":1,"op":"exec"}`:                 "doesn't understand",
		`{"protocol":"two","op":"exec"}`:             "doesn't understand",
		`{"protocol":2,"op":"grant"}`:                `doesn't know the request "grant"`,
	} {
		h, a := raw(t, runtime, text)
		if (says == "") != (a.Err == nil) || h.Protocol > Protocol || h.Protocol < 0 {
			t.Errorf("%s: %+v, %+v", text, h, a.Err)
		}
		if a.Err != nil && (!strings.Contains(a.Err.Text, says) || !strings.Contains(a.Err.Hint, "aisb stop") || a.Err.Status != 125) {
			t.Errorf("%s: %+v", text, a.Err)
		}
	}
	if len(served) != 2 {
		t.Errorf("%d commands ran", len(served))
	}
	for text, want := range map[string]time.Duration{
		`{"protocol":99,"op":"stop","grace":1000}`: 1000, `{"op":"stop","grace":7}`: 7, `{"protocol":99,"op":"stop","grace":"soon"}`: 0,
	} {
		if _, a := raw(t, runtime, text); a.Err != nil {
			t.Errorf("%s: %+v", text, a.Err)
		}
		if got := <-stopped; got != want {
			t.Errorf("%s: stopped with %v", text, got)
		}
	}
	s.Close()
}

// answers serves each client one answer, as a sandbox of any age would.
func answers(t *testing.T, runtime, text string, files ...*os.File) {
	t.Helper()
	s, err := Listen(filepath.Join(runtime, "r"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.ln.Close() })
	go func() {
		for {
			c, err := s.ln.AcceptUnix()
			if err != nil {
				return
			}
			conn, err := fdmsg.FromConn(c)
			if err != nil {
				return
			}
			var r json.RawMessage
			if m, err := conn.Recv(&r); err == nil {
				m.Close()
				_ = conn.Send(json.RawMessage(text), files...) // an error shows at the client
			}
			conn.Close()
		}
	}()
}

// TestSandboxesOfOtherVersions: a newer one is listed and can be ended, and what it would
// run in a way that isn't known here doesn't run: its end is that of its descriptors.
func TestSandboxesOfOtherVersions(t *testing.T) {
	const exec, attach, newer = "exec", "attach", "is a newer one: it speaks version 2 of the control protocol, this one knows 1"
	for name, tt := range map[string]struct {
		answer string
		says   map[string]string
		state  State
	}{
		"before versions": {`{"info":{"name":"x","state":"running"}}`, map[string]string{exec: "0 descriptors", attach: "0 descriptors"}, Running},
		"newer": {`{"protocol":2,"info":{"name":"x","state":"running","aisb":"9","new":[{}]},"new":7}`,
			map[string]string{exec: newer, attach: newer}, Running},
		"newer, and other words":  {`{"protocol":2,"info":{"name":"x","state":"frozen"}}`, map[string]string{exec: newer}, "frozen"},
		"newer, and other fields": {`{"protocol":2,"info":["x"]}`, map[string]string{exec: newer}, Silent},
		"newer, and refuses":      {`{"protocol":2,"err":{"text":"not you","hint":"so","status":125}}`, map[string]string{exec: "not you", attach: "not you"}, Silent},
		"newer, and says no more": {`{"protocol":2,"err":{"text":"not you","hint":"so"}}`, map[string]string{exec: "not you", attach: "not you"}, Silent},
		"another language":        {`[7]`, map[string]string{exec: "can't be understood", attach: "can't be understood"}, Silent},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := t.TempDir()
			answers(t, runtime, tt.answer)
			list, err := List(runtime, Patience)
			if err != nil || len(list) != 1 || list[0].State != tt.state {
				t.Errorf("listed as %+v, %v", list, err)
			}
			if err := dial(t, runtime, "r").Stop(0, time.Minute); err != nil && !strings.Contains(tt.answer, `"err"`) && name != "another language" {
				t.Errorf("stop: %v", err)
			}
			for what, says := range tt.says {
				c := dial(t, runtime, "r")
				_, err := c.Exec(handshake.Exec{Argv: handshake.Args{"x"}})
				if what == attach {
					_, err = dial(t, runtime, "r").Attach(Attach{})
				}
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v", what, err)
				}
				if refused, ok := errors.AsType[*Error](err); ok && (refused.Hint == "" || refused.Status != 125) {
					t.Errorf("%s: no hint, or the status of something that ran: %+v", what, refused)
				}
			}
		})
	}
	// What came along with an answer of another version is closed.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	runtime := t.TempDir()
	answers(t, runtime, `{"protocol":2}`, w)
	if _, err := dial(t, runtime, "r").Exec(handshake.Exec{Argv: handshake.Args{"x"}}); err == nil {
		t.Error("it was taken")
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("somebody still has the pipe: %d, %v", n, err)
	}
}
