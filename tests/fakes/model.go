package fakes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Turn is one answer of the scripted model: text, a call of a tool, or both.
type Turn struct {
	Text  string          `json:"text,omitempty"`
	Tool  string          `json:"tool,omitempty"`  // name as the harness knows it
	Input json.RawMessage `json:"input,omitempty"` // of the tool, a JSON object

	Or []Turn `json:"or,omitempty"` // for clients that don't offer Tool
}

// EditScript is the conversation that makes pi or Claude Code write path with
// content and then say done.
func EditScript(path, content, done string) []Turn {
	const will = "I'll write the file."
	call := func(tool, pathKey string) Turn {
		input, err := json.Marshal(map[string]string{pathKey: path, "content": content})
		if err != nil {
			panic(err) // two strings always marshal
		}
		return Turn{Text: will, Tool: tool, Input: input}
	}
	write := call("write", "path")
	write.Or = []Turn{call("Write", "file_path")}
	return []Turn{write, {Text: done}}
}

// Model stands in for the Anthropic Messages API (POST /v1/messages), streamed
// or not. It keeps no state: which turn a request gets follows from how many
// answers its conversation already holds, so that runs may overlap. After the
// last turn it says "done".
type Model struct {
	Script []Turn
	Key    string        // x-api-key that is asked for; "" takes any
	Every  time.Duration // pause between the events of a stream
	Log    *Log          // nil logs nothing

	Phrases []string // looked for in each request: see Event.Heard
}

// messageRequest is what the stand-in reads of a request.
type messageRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// ServeHTTP answers as the API would, errors included.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/hello" || r.URL.Path == "/v1/oauth/hello" { // Claude Code's first start looks whether these can be reached
		writeJSON(w, map[string]string{"message": "hello"})
		return
	}
	if r.URL.Path != "/v1/messages" || r.Method != http.MethodPost {
		apiError(w, http.StatusNotFound, "not_found_error", r.Method+" "+r.URL.Path+" is not served here")
		return
	}
	key := r.Header.Get("X-Api-Key")
	if m.Key != "" && key != m.Key {
		apiError(w, http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
		return
	}
	var req messageRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil || len(req.Messages) == 0 {
		apiError(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("messages: %v", err))
		return
	}
	turn, n := m.turn(req)
	m.note(r, body, Event{Turn: n, Model: req.Model, Key: key, Text: plainText(req.Messages[len(req.Messages)-1].Content)})
	if turn = turn.offered(req); turn.Tool != "" && !req.offers(turn.Tool) {
		apiError(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("the script calls %q, which the client doesn't offer", turn.Tool))
		return
	}
	msg := turn.message(req.Model, n)
	if !req.Stream {
		writeJSON(w, msg)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	for i, e := range msg.events() {
		if i > 0 && m.Every > 0 {
			select {
			case <-time.After(m.Every):
			case <-r.Context().Done():
				return
			}
		}
		writeEvent(w, e)
	}
}

func (m *Model) turn(req messageRequest) (Turn, int) {
	n := 1
	for _, msg := range req.Messages {
		if msg.Role == "assistant" {
			n++
		}
	}
	switch {
	case n > len(m.Script):
		return Turn{Text: "done"}, n
	case len(req.Tools) == 0: // a title for the conversation, or the like
		return Turn{Text: m.last()}, n
	}
	return m.Script[n-1], n
}

// offered is the turn, or the first of its others whose tool the client has.
func (t Turn) offered(req messageRequest) Turn {
	for _, other := range t.Or {
		if !req.offers(t.Tool) && req.offers(other.Tool) {
			return other
		}
	}
	return t
}

func (req messageRequest) offers(tool string) bool {
	for _, t := range req.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// plainText is the text of a message, whose content is a string or a list of
// blocks; of a tool's result, the text within.
func plainText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
		if len(b.Content) > 0 {
			parts = append(parts, plainText(b.Content))
		}
	}
	return strings.Join(parts, "\n")
}

func apiError(w http.ResponseWriter, status int, kind, text string) {
	writeStatus(w, status, map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}})
}

// usage are the token counts, which the stand-in makes up.
type usage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

type block struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// message is the whole answer of turn number n.
func (t Turn) message(model string, n int) message {
	stop := "end_turn"
	msg := message{
		ID: fmt.Sprintf("msg_standin_%04d", n), Type: "message", Role: "assistant", Model: model,
		Content: []block{}, StopReason: &stop, Usage: usage{Input: 100, Output: 10},
	}
	if t.Text != "" {
		msg.Content = append(msg.Content, block{Type: "text", Text: &t.Text})
	}
	if t.Tool != "" {
		stop = "tool_use"
		input := t.Input
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		msg.Content = append(msg.Content, block{Type: "tool_use", ID: fmt.Sprintf("toolu_standin_%04d", n), Name: t.Tool, Input: input})
	}
	return msg
}

// events cuts an answer into the events of a stream: the start, each block in
// pieces, the stop reason, the end.
func (m message) events() []map[string]any {
	start := m
	start.Content, start.StopReason, start.Usage.Output = []block{}, nil, 1
	events := []map[string]any{
		{"type": "message_start", "message": start},
		{"type": "ping"},
	}
	for i, b := range m.Content {
		empty, kind, field, text := b, "text_delta", "text", ""
		if b.Type == "tool_use" {
			empty.Input, kind, field, text = json.RawMessage("{}"), "input_json_delta", "partial_json", string(b.Input)
		} else {
			none := ""
			empty.Text, text = &none, *b.Text
		}
		events = append(events, map[string]any{"type": "content_block_start", "index": i, "content_block": empty})
		for _, piece := range pieces(text, 24) {
			events = append(events, map[string]any{"type": "content_block_delta", "index": i,
				"delta": map[string]any{"type": kind, field: piece}})
		}
		events = append(events, map[string]any{"type": "content_block_stop", "index": i})
	}
	return append(events,
		map[string]any{"type": "message_delta", "usage": m.Usage,
			"delta": map[string]any{"stop_reason": m.StopReason, "stop_sequence": nil}},
		map[string]any{"type": "message_stop"})
}

// pieces cuts s after every n characters.
func pieces(s string, n int) []string {
	var out []string
	for r := []rune(s); len(r) > 0; {
		k := min(n, len(r))
		out = append(out, string(r[:k]))
		r = r[k:]
	}
	return out
}
