package fakes

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// rebound dials one address, whichever is asked for.
type rebound struct {
	d    net.Dialer
	addr string
}

func (r *rebound) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return r.d.DialContext(ctx, network, r.addr)
}

// ask sends a request to the model and returns status and events of the stream.
func ask(t *testing.T, m *Model, key, body string) (int, []map[string]any) {
	t.Helper()
	srv := httptest.NewServer(m)
	defer srv.Close()
	req, err := http.NewRequest("POST", srv.URL+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var events []map[string]any
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if data, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			var e map[string]any
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			events = append(events, e)
		}
	}
	return resp.StatusCode, events
}

// joined puts the pieces of a stream together.
func joined(events []map[string]any) (text, input, stop string) {
	for _, e := range events {
		delta, _ := e["delta"].(map[string]any)
		if s, ok := delta["text"].(string); ok {
			text += s
		}
		if s, ok := delta["partial_json"].(string); ok {
			input += s
		}
		if s, ok := delta["stop_reason"].(string); ok {
			stop = s
		}
	}
	return text, input, stop
}

const (
	tools = `"model":"m","stream":true,"tools":[{"name":"write"}]`
	first = `{` + tools + `,"messages":[{"role":"user","content":"make it"}]}`
	then  = `{` + tools + `,"messages":[{"role":"user","content":"make it"},
	  {"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"write","input":{}}]},
	  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"wrote it"}]}]}]}`
)

func TestModelConversation(t *testing.T) {
	m := &Model{Script: EditScript("a.txt", "ünï\n", "All done."), Key: "sk", Log: &Log{}}
	status, events := ask(t, m, "sk", first)
	text, input, stop := joined(events)
	if status != 200 || text != "I'll write the file." || input != `{"content":"ünï\n","path":"a.txt"}` || stop != "tool_use" {
		t.Errorf("first turn: %d %q %s %s", status, text, input, stop)
	}
	if from, to := events[0]["type"], events[len(events)-1]["type"]; from != "message_start" || to != "message_stop" {
		t.Errorf("the stream runs from %v to %v", from, to)
	}
	status, events = ask(t, m, "sk", then)
	if text, _, stop := joined(events); status != 200 || text != "All done." || stop != "end_turn" {
		t.Errorf("second turn: %d %q %s", status, text, stop)
	}
	log := m.Log.Events("model")
	if len(log) != 2 || log[0].Text != "make it" || log[1].Text != "wrote it" || log[1].Turn != 2 {
		t.Errorf("logged %+v", log)
	}
}

func TestModelSaysHello(t *testing.T) {
	w := httptest.NewRecorder()
	(&Model{Key: "sk"}).ServeHTTP(w, httptest.NewRequest("GET", "/api/hello", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "hello") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestModelRefuses(t *testing.T) {
	m := &Model{Script: []Turn{{Tool: "edit"}}, Key: "sk"}
	for name, tt := range map[string]struct {
		key, body string
		want      int
	}{
		"wrong key":        {"other", first, 401},
		"no messages":      {"sk", `{"model":"m","messages":[]}`, 400},
		"not json":         {"sk", `make it`, 400},
		"tool not offered": {"sk", first, 400},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := ask(t, m, tt.key, tt.body); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
