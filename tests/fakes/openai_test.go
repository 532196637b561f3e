package fakes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestOtherModels: the APIs of the other models answer in their own forms, and tell
// which phrases they heard.
func TestOtherModels(t *testing.T) {
	log := &Log{}
	m := &Model{Script: []Turn{{Text: "first"}, {Text: "All is done."}}, Key: "k", Log: log, Phrases: []string{"told so", "not this"}}
	for name, c := range map[string]struct {
		handler    http.Handler
		method     string
		path, head string // head carries the key
		key        string
		status     int
		want       string
	}{
		"openai":            {openAI{m}, "POST", "/v1/responses", "Authorization", "Bearer k", 200, `"type":"response.completed"`},
		"openai, wrong key": {openAI{m}, "POST", "/v1/responses", "Authorization", "Bearer x", 401, "invalid_api_key"},
		"openai, websocket": {openAI{m}, "GET", "/v1/responses", "Upgrade", "websocket", 426, "not served"},
		"openai, other":     {openAI{m}, "GET", "/v1/models", "Authorization", "Bearer k", 404, "not served"},
		"gemini":            {gemini{m}, "POST", "/v1beta/models/m1:streamGenerateContent?alt=sse", "X-Goog-Api-Key", "k", 200, "All is done."},
		"gemini, whole":     {gemini{m}, "POST", "/v1beta/models/m1:generateContent", "X-Goog-Api-Key", "k", 200, "model_choice"},
		"gemini, wrong key": {gemini{m}, "POST", "/v1beta/models/m1:generateContent", "X-Goog-Api-Key", "x", 400, "not valid"},
		"gemini, other":     {gemini{m}, "POST", "/v1beta/models/m1:countTokens", "X-Goog-Api-Key", "k", 404, "not served"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			req, err := http.NewRequest(c.method, srv.URL+c.path, strings.NewReader(`{"model":"m1","input":"you were told so"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(c.head, c.key)
			before := len(log.Events())
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("status %d, %v: %s", resp.StatusCode, err, body)
			}
			events := log.Events()[before:]
			if c.status != 200 {
				if len(events) > 0 {
					t.Errorf("logged %+v", events)
				}
				return
			}
			if len(events) != 1 || events[0].Model != "m1" || events[0].Key != "k" || !slices.Equal(events[0].Heard, []string{"told so"}) {
				t.Errorf("logged %+v", events)
			}
		})
	}
}
