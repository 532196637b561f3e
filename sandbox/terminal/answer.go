package terminal

// Question asks for the terminal's attributes (DA1). Every terminal answers it,
// and all that it was asked before first.
const Question = "\x1b[c"

// Answer finds answers to Question in what a terminal sends.
type Answer struct{ seen int }

// answerBegins is how an answer begins; numbers and a c follow. No key does.
const answerBegins = "\x1b[?"

// Next takes a byte and reports whether it ends an answer.
func (a *Answer) Next(b byte) bool {
	switch {
	case b == esc:
		a.seen = 1
	case a.seen > 0 && a.seen < len(answerBegins) && b == answerBegins[a.seen]:
		a.seen++
	case a.seen == len(answerBegins) && (b >= '0' && b <= '9' || b == ';'):
	default:
		whole := a.seen == len(answerBegins) && b == 'c'
		a.seen = 0
		return whole
	}
	return false
}

// Count is how many answers p has the end of.
func (a *Answer) Count(p []byte) (n int) {
	for _, b := range p {
		if a.Next(b) {
			n++
		}
	}
	return n
}
