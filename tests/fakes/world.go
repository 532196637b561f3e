package fakes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// World is a whole outside in one document: what the serve command runs, and
// what a test in the same process can start as well.
type World struct {
	CA      string              `json:"ca"`      // file that gets the authority's certificate; "" for none
	DNS     []string            `json:"dns"`     // addresses of name servers
	Hosts   map[string][]string `json:"hosts"`   // names and their addresses, for all name servers
	Origins []OriginSpec        `json:"origins"` // other servers

	Script []Turn   `json:"script"` // of the model origins
	Key    string   `json:"key"`    // that the model and git origins ask for
	Every  duration `json:"every"`  // pause between events of a model's stream

	Phrases []string `json:"phrases"` // that the model origins look for
}

// OriginSpec is one server of a World.
type OriginSpec struct {
	Listen string `json:"listen"` // ADDRESS:PORT, port 0 chooses
	// Kind is http, https, model (Anthropic's API over TLS), model-http (without),
	// openai and gemini (theirs, over TLS), echo, count, silent, reset, banner,
	// half-closed, program or git (over TLS, with a password).
	Kind string `json:"kind"`
	// Text is what banner and half-closed say, program's shell command, git's directory
	// of repositories.
	Text string `json:"text"`
}

// duration is a time.Duration written "10ms".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// ParseWorld reads a document; unknown keys are errors.
func ParseWorld(r io.Reader) (World, error) {
	var w World
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return World{}, fmt.Errorf("parse world: %w", err)
	}
	return w, nil
}

// Running is a started World.
type Running struct {
	Log *Log
	CA  *CA
	// Addrs are the addresses of the name servers, then of the origins, in the
	// order of the document.
	Addrs []string

	closers []io.Closer
}

// Start starts everything, or nothing and returns why. The last event of the
// start is a "ready" for each server, so that a reader of the log knows their
// addresses.
func (w World) Start(log *Log) (_ *Running, err error) {
	run := &Running{Log: log}
	defer func() {
		if err != nil {
			run.Close()
		}
	}()
	if run.CA, err = NewCA(); err != nil {
		return nil, err
	}
	if w.CA != "" {
		if err := os.WriteFile(w.CA, run.CA.PEM(), 0o644); err != nil {
			return nil, fmt.Errorf("start world: %w", err)
		}
	}
	for _, addr := range w.DNS {
		d, err := StartDNS(addr, Hosts(w.Hosts), log)
		if err != nil {
			return nil, err
		}
		run.add(d, d.Addr.String())
	}
	for _, spec := range w.Origins {
		c, addr, err := w.origin(spec, run)
		if err != nil {
			return nil, err
		}
		run.add(c, addr)
	}
	for i, addr := range run.Addrs {
		kind := "dns"
		if i >= len(w.DNS) {
			kind = w.Origins[i-len(w.DNS)].Kind
		}
		log.Add(Event{Fake: "ready", Addr: addr, Type: kind})
	}
	return run, nil
}

func (r *Running) add(c io.Closer, addr string) {
	r.closers = append(r.closers, c)
	r.Addrs = append(r.Addrs, addr)
}

func (w World) origin(spec OriginSpec, run *Running) (io.Closer, string, error) {
	model := &Model{Script: w.Script, Key: w.Key, Every: time.Duration(w.Every), Log: run.Log, Phrases: w.Phrases}
	web := map[string]http.Handler{"http": Site(), "https": Site(), "model": model, "model-http": model,
		"openai": openAI{model}, "gemini": gemini{model}}
	talk := map[string]Talk{"echo": Echo, "count": Count, "silent": Silent, "reset": Reset,
		"banner": Banner(spec.Text), "half-closed": HalfClosed(spec.Text), "program": Program(spec.Text)}
	if spec.Kind == "git" {
		git, err := Git(spec.Text)
		if err != nil {
			return nil, "", err
		}
		web["git"] = Login(git, w.Key, run.Log)
	}
	if h, ok := web[spec.Kind]; ok {
		start := func() (*Origin, error) { return StartHTTPS(spec.Listen, run.CA, h, run.Log) }
		if spec.Kind == "http" || spec.Kind == "model-http" {
			start = func() (*Origin, error) { return StartHTTP(spec.Listen, h, run.Log) }
		}
		o, err := start()
		if err != nil {
			return nil, "", err
		}
		return o, o.Addr.String(), nil
	}
	if t, ok := talk[spec.Kind]; ok {
		o, err := StartTCP(spec.Listen, t, run.Log)
		if err != nil {
			return nil, "", err
		}
		return o, o.Addr.String(), nil
	}
	return nil, "", fmt.Errorf("start world: unknown kind of origin %q", spec.Kind)
}

// Close ends everything.
func (r *Running) Close() error {
	var errs error
	for _, c := range r.closers {
		errs = errors.Join(errs, c.Close())
	}
	return errs
}
