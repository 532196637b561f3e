package fakes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// openAI stands in for OpenAI's Responses API (POST /v1/responses), streamed. It
// says the last text of the script, whatever it is asked. Clients that would rather
// have a websocket are told at once that there is none.
type openAI struct{ *Model }

// ServeHTTP answers as the API would.
func (m openAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/responses" || r.Method != http.MethodPost {
		status := http.StatusNotFound
		if r.Header.Get("Upgrade") != "" {
			status = http.StatusUpgradeRequired // RFC 9110, section 15.5.22, though the other way round
		}
		writeStatus(w, status, map[string]any{"error": map[string]string{
			"type": "invalid_request_error", "message": r.Method + " " + r.URL.Path + " is not served here"}})
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if m.Key != "" && key != m.Key {
		writeStatus(w, http.StatusUnauthorized, map[string]any{"error": map[string]string{
			"type": "invalid_request_error", "code": "invalid_api_key", "message": "incorrect API key"}})
		return
	}
	body, err := io.ReadAll(r.Body)
	var req struct {
		Model string `json:"model"`
	}
	if err != nil || json.Unmarshal(body, &req) != nil {
		writeStatus(w, http.StatusBadRequest, map[string]any{"error": map[string]string{
			"type": "invalid_request_error", "message": "not a JSON object"}})
		return
	}
	m.note(r, body, Event{Model: req.Model, Key: key, Turn: 1})
	text := m.last()
	item := map[string]any{"id": "msg_standin_0001", "type": "message", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
	response := map[string]any{"id": "resp_standin_0001", "object": "response", "created_at": 1700000000,
		"model": req.Model, "status": "in_progress", "output": []any{}}
	done := map[string]any{"id": "resp_standin_0001", "object": "response", "created_at": 1700000000,
		"model": req.Model, "status": "completed", "output": []any{item},
		"usage": map[string]any{"input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
			"input_tokens_details":  map[string]int{"cached_tokens": 0},
			"output_tokens_details": map[string]int{"reasoning_tokens": 0}}}
	events := []map[string]any{
		{"type": "response.created", "response": response},
		{"type": "response.output_item.added", "output_index": 0, "item": map[string]any{
			"id": item["id"], "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}},
	}
	for _, piece := range pieces(text, 24) {
		events = append(events, map[string]any{"type": "response.output_text.delta", "item_id": item["id"],
			"output_index": 0, "content_index": 0, "delta": piece})
	}
	events = append(events,
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": done})
	w.Header().Set("Content-Type", "text/event-stream")
	for i, e := range events {
		e["sequence_number"] = i
		writeEvent(w, e)
	}
}

// gemini stands in for Google's Gemini API: streamGenerateContent as a stream of
// events, and generateContent.
type gemini struct{ *Model }

// ServeHTTP answers as the API would.
func (m gemini) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	model, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	if !ok || method != "streamGenerateContent" && method != "generateContent" {
		writeStatus(w, http.StatusNotFound, map[string]any{"error": map[string]any{
			"code": http.StatusNotFound, "status": "NOT_FOUND", "message": r.URL.Path + " is not served here"}})
		return
	}
	key := r.Header.Get("X-Goog-Api-Key")
	if m.Key != "" && key != m.Key {
		writeStatus(w, http.StatusBadRequest, map[string]any{"error": map[string]any{
			"code": http.StatusBadRequest, "status": "INVALID_ARGUMENT", "message": "API key not valid"}})
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.note(r, body, Event{Model: model, Key: key, Turn: 1})
	text := m.last()
	if method == "generateContent" { // Gemini CLI asks a small model first which one to ask
		text = `{"reasoning":"simple","complexity_reasoning":"simple","complexity_score":1,"model_choice":"flash"}`
	}
	answer := map[string]any{
		"candidates": []any{map[string]any{"index": 0, "finishReason": "STOP",
			"content": map[string]any{"role": "model", "parts": []any{map[string]string{"text": text}}}}},
		"usageMetadata": map[string]int{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
		"modelVersion":  model, "responseId": "standin",
	}
	if method == "generateContent" {
		writeJSON(w, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	data, err := json.Marshal(answer)
	if err == nil {
		fmt.Fprintf(w, "data: %s\r\n\r\n", data)
	}
}

// last is what the model says in the end.
func (m *Model) last() string {
	if len(m.Script) == 0 {
		return "done"
	}
	return m.Script[len(m.Script)-1].Text
}

// note logs a request to the model, and which of the phrases it holds.
func (m *Model) note(r *http.Request, body []byte, e Event) {
	if m.Log == nil {
		return
	}
	e.Fake, e.Client, e.Host, e.Path = "model", r.RemoteAddr, r.Host, r.URL.Path
	if r.TLS != nil {
		e.SNI = r.TLS.ServerName
	}
	for _, phrase := range m.Phrases {
		if strings.Contains(string(body), phrase) {
			e.Heard = append(e.Heard, phrase)
		}
	}
	m.Log.Add(e)
}

func writeStatus(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func writeEvent(w http.ResponseWriter, e map[string]any) {
	data, err := json.Marshal(e)
	if err != nil {
		return // the stream ends early: the client reports it
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	http.NewResponseController(w).Flush()
}
