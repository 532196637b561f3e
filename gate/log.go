package gate

import (
	"io"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Event is what a line of the log tells of.
type Event string

// The events, a closed set described in docs/gate-log.md.
const (
	EventListening Event = "listening"
	EventAllow     Event = "allow"
	EventDeny      Event = "deny"
	EventError     Event = "error"
	EventClose     Event = "close"
	EventReload    Event = "reload"
	EventForeign   Event = "foreign-client"
	EventOpen      Event = "open" // of a sandbox without a gate, like shut
	EventShut      Event = "shut"
	EventExit      Event = "exit"
)

// Events lists the closed set in the order of its documentation.
func Events() []Event {
	return []Event{EventListening, EventAllow, EventDeny, EventError, EventClose, EventReload, EventForeign, EventOpen, EventShut, EventExit}
}

// Record is one line of the log. It has no place for paths, queries, header
// fields and bodies, so none can slip in. Zero fields are left out, except that
// Traffic writes its counts even when they are zero.
type Record struct {
	Event    Event
	ID       uint64
	Method   string
	Host     string
	Port     uint16
	Reason   policy.Reason
	Rule     string
	Addr     netip.AddrPort // what was dialled; of listening, where
	Confined string         // of listening: what this process is locked up by
	SNI      string
	ALPN     string
	Client   netip.AddrPort
	Traffic  *Traffic
}

// Traffic is what went through a request or a tunnel.
type Traffic struct {
	Up, Down int64 // bytes from and to the client
	Duration time.Duration
}

// Log writes records as one JSON object a line. It is safe for concurrent use.
type Log struct {
	now   zapcore.Core // returns when the line is written
	later zapcore.Core // the line is written soon, and before the next of now
	out   *lines
	run   string
}

// NewLog writes to w. A reader at the end of a pipe sees each line at once, those
// of the end of a tunnel or request within lateBy. run names the sandbox, ""
// leaves the key out.
func NewLog(w io.Writer, run string) *Log {
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey:    "ts",
		EncodeTime: encodeTime,
		MessageKey: "event",
		LineEnding: zapcore.DefaultLineEnding,
	})
	out := &lines{w: w}
	// Not a zap.Logger, which keeps the error of a write to itself.
	through := func(w writer) zapcore.Core { return zapcore.NewCore(encoder, zapcore.AddSync(w), zapcore.InfoLevel) }
	return &Log{now: through(out.now), later: through(out.later), out: out, run: run}
}

// OnFailure has told called when lines can't be written any more, once a minute at most. It must
// come before the first line, and told must not write one.
func (l *Log) OnFailure(told func(error)) { l.out.tell = told }

// Ready reports whether the log can be written, as far as that is known. Where a line couldn't
// be, it tries again.
func (l *Log) Ready() bool { return l.out.ready() }

// Unwritten is how many lines are missing for want of a disk that takes them.
func (l *Log) Unwritten() int { return l.out.unwritten() }

// encodeTime is RFC 3339 in UTC with milliseconds.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Write writes one record, and reports whether it is written, or will be soon. One that isn't
// is written later if that is possible.
func (l *Log) Write(r Record) bool {
	fields := make([]zap.Field, 0, 15)
	text := func(key, value string) {
		if value != "" {
			fields = append(fields, zap.String(key, printable(value)))
		}
	}
	if r.ID != 0 {
		fields = append(fields, zap.Uint64("id", r.ID))
	}
	text("run", l.run)
	text("method", r.Method)
	text("host", r.Host)
	if r.Port != 0 {
		fields = append(fields, zap.Uint16("port", r.Port))
	}
	text("reason", string(r.Reason))
	text("rule", r.Rule)
	if r.Addr.IsValid() {
		text("addr", r.Addr.String())
	}
	text("sni", r.SNI)
	text("alpn", r.ALPN)
	text("confined", r.Confined)
	if r.Traffic != nil {
		fields = append(fields, zap.Int64("up", r.Traffic.Up), zap.Int64("down", r.Traffic.Down),
			zap.Int64("ms", r.Traffic.Duration.Milliseconds()))
	}
	if r.Client.IsValid() {
		text("client", r.Client.String())
	}
	to := l.now
	if r.Event == EventClose {
		to = l.later
	}
	return to.Write(zapcore.Entry{Level: zapcore.InfoLevel, Time: time.Now(), Message: string(r.Event)}, fields) == nil
}

// maxText bounds a text in the log: a name has at most 253 bytes.
const maxText = 255

// printable keeps printable ASCII and writes every other byte as \xNN. Names
// from outside can't move a cursor, reverse a line or forge one, not even when
// a tool has decoded the JSON.
func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	clean := true
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e {
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
