package control

import (
	"encoding/json"
	"fmt"
)

// Protocol is the version of this language, and of what goes over the sockets that an
// answer comes with: handshake.Exec, Control and Stage, AttachControl and AttachEnd. A
// sandbox outlives the aisb that started it, whose file a package manager replaces, so
// both sides may be of any age. Raise it when one who knows the version before would
// take a message for something else than is meant; a new field that may be left unread
// is no reason, nor is a new Op, which is refused by its name. TestProtocol holds the
// messages of each version as they are on the wire.
//
// OpInfo and OpStop are for ever: they are answered whatever the version, so that 'ps'
// finds and 'stop' ends what any other aisb has started.
const Protocol = 1

// statusProtocol is for a client to exit with that isn't served.
const statusProtocol = 125

// head is what of a message can be read in every version.
type head struct {
	Protocol int `json:"protocol"` // 0 is from before there were versions, and like 1
	Op       Op  `json:"op"`
}

// parseRequest reads a request, or says why it can't be granted.
func parseRequest(text []byte) (Request, *Error) {
	var h head
	var r Request
	switch err := json.Unmarshal(text, &h); {
	case err != nil:
		return r, &Error{Text: "the sandbox's aisb doesn't understand the request", Hint: otherAisb, Status: statusProtocol}
	case h.Op == OpInfo:
		return Request{Op: OpInfo}, nil
	case h.Op == OpStop:
		_ = json.Unmarshal(text, &r) // a grace that can't be read is none
		return Request{Op: OpStop, Grace: r.Grace}, nil
	case h.Op != OpExec && h.Op != OpAttach:
		return r, &Error{Text: fmt.Sprintf("the sandbox's aisb doesn't know the request %q", h.Op), Hint: otherAisb, Status: statusProtocol}
	case h.Protocol < 0 || h.Protocol > Protocol:
		return r, &Error{Text: fmt.Sprintf("the sandbox's aisb is an older one: it knows version %d of the control protocol, this one speaks %d", Protocol, h.Protocol),
			Hint: otherAisb, Status: statusProtocol}
	}
	if json.Unmarshal(text, &r) != nil || r.Exec == nil && r.Op == OpExec || r.Attach == nil && r.Op == OpAttach {
		return r, &Error{Text: "the sandbox's aisb doesn't understand the request", Hint: otherAisb, Status: statusProtocol}
	}
	return r, nil
}

// otherAisb is what to do about a sandbox that goes on as another aisb has started it.
const otherAisb = "another version of aisb has started it: 'aisb stop' ends it, and a new run has the aisb that is installed now"

// parseAnswer reads an answer to a request. One in a version that this side doesn't
// know counts only where the request is answered in all of them.
func parseAnswer(op Op, text []byte) (Answer, error) {
	var h head
	var a Answer
	if err := json.Unmarshal(text, &h); err != nil {
		return a, &Error{Text: "what the sandbox's aisb answers can't be understood", Hint: otherAisb, Status: statusProtocol}
	}
	always := op == OpInfo || op == OpStop
	err := json.Unmarshal(text, &a)
	switch {
	case a.Err != nil:
		if a.Err.Status <= 0 || a.Err.Status > 255 { // in another version's words: a refusal is no success
			a.Err.Status = statusProtocol
		}
		return a, a.Err
	case !always && (h.Protocol < 0 || h.Protocol > Protocol):
		return Answer{}, &Error{Text: fmt.Sprintf("the sandbox's aisb is a newer one: it speaks version %d of the control protocol, this one knows %d", h.Protocol, Protocol),
			Hint: "use that aisb; this one can end the sandbox: aisb stop", Status: statusProtocol}
	case err != nil && op != OpStop:
		return Answer{}, &Error{Text: "what the sandbox's aisb answers can't be understood", Hint: otherAisb, Status: statusProtocol}
	}
	return a, nil
}

// spoken is the version of an answer to a request.
func spoken(r Request) int { return min(max(r.Protocol, 0), Protocol) }
