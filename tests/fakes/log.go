// Package fakes provides the outside world of the tests: name servers, origins
// and a model API that listen where they are told and remember what reached
// them.
//
// Everything listens on the addresses given. Inside a network namespace these
// may look public (203.0.113.53, 198.51.100.10), which is what the gate's
// classification of addresses needs. A listener belongs to the namespace of the
// thread that opens it: call the Start functions with the goroutine locked to a
// thread that has entered the namespace, or run the serve command in it.
package fakes

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Event is one thing that reached a fake. Absent fields are empty.
type Event struct {
	Time   time.Time `json:"ts"`
	Began  time.Time `json:"began"`            // when the request or the connection came; Time is when it was noted
	Fake   string    `json:"fake"`             // dns, http, https, tcp, model, ready
	Addr   string    `json:"addr,omitempty"`   // the listener's
	Client string    `json:"client,omitempty"` // address and port of the peer

	// dns
	Name  string `json:"name,omitempty"` // lower case, without the final dot
	Type  string `json:"type,omitempty"` // A, AAAA, ...
	Proto string `json:"proto,omitempty"`
	Rcode string `json:"rcode,omitempty"`

	// http, https, model
	Method string `json:"method,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path,omitempty"` // with the query
	SNI    string `json:"sni,omitempty"`
	Status int    `json:"status,omitempty"`

	// http and tcp: bytes of the body, or of the connection, received
	Bytes int64 `json:"bytes,omitempty"`

	// model
	Turn  int    `json:"turn,omitempty"`  // 1 is the first answer of a conversation
	Model string `json:"model,omitempty"` // asked for
	Key   string `json:"key,omitempty"`   // API key as received
	Text  string `json:"text,omitempty"`  // the last message of the request

	Heard []string `json:"heard,omitempty"` // those of Model.Phrases that the request holds
}

// Log collects events of any number of fakes. The zero value is ready.
type Log struct {
	mu     sync.Mutex
	events []Event
	out    io.Writer
	under  int           // requests that are answered and not logged yet
	grew   chan struct{} // closed and replaced at each event
}

// NewLog returns a Log that also writes each event to out as a line of JSON.
func NewLog(out io.Writer) *Log { return &Log{out: out} }

// Add appends an event and sets its time, and when it began unless that is known.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = time.Now().UTC()
	if e.Began.IsZero() {
		e.Began = e.Time
	}
	l.events = append(l.events, e)
	if l.grew != nil {
		close(l.grew)
		l.grew = nil
	}
	if l.out == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		line = fmt.Appendf(nil, `{"fake":"log","text":%q}`, err.Error())
	}
	l.out.Write(append(line, '\n')) // a reader that has gone misses lines, no more
}

// begin notes a request whose event comes when it has been answered, which its client
// may see first. The function that it returns is for then.
func (l *Log) begin() (end func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under++
	return func(e Event) {
		l.Add(e)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.under--
	}
}

// Quiet waits until all that has reached the fakes is logged, and reports whether that
// came about in time.
func (l *Log) Quiet(limit time.Duration) bool {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		under := l.under
		l.mu.Unlock()
		if under == 0 || time.Now().After(end) {
			return under == 0
		}
	}
}

// Events returns what was logged so far, oldest first; with names, only events
// of these fakes.
func (l *Log) Events(fakes ...string) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.match(func(e Event) bool { return among(e.Fake, fakes) })
}

// Names returns the names asked for in DNS so far, in order, each query once.
func (l *Log) Names() []string {
	var names []string
	for _, e := range l.Events("dns") {
		names = append(names, e.Name)
	}
	return names
}

// Wait blocks until an event satisfies ok and returns it, or false when limit
// has passed. Events of the past count.
func (l *Log) Wait(limit time.Duration, ok func(Event) bool) (Event, bool) {
	deadline := time.After(limit)
	for {
		l.mu.Lock()
		found := l.match(ok)
		if l.grew == nil {
			l.grew = make(chan struct{})
		}
		grew := l.grew
		l.mu.Unlock()
		if len(found) > 0 {
			return found[0], true
		}
		select {
		case <-grew:
		case <-deadline:
			return Event{}, false
		}
	}
}

// match needs the lock.
func (l *Log) match(ok func(Event) bool) []Event {
	var found []Event
	for _, e := range l.events {
		if ok(e) {
			found = append(found, e)
		}
	}
	return found
}

func among(s string, list []string) bool {
	if len(list) == 0 {
		return true
	}
	return slices.Contains(list, s)
}
