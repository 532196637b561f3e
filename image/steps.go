package image

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Step is a point that a build has reached.
type Step struct {
	N, Of int // 1 is the first
	Title string
}

// Steps reads a build's output line by line, calls step at each that begins,
// and copies every line to log. It returns when the output ends.
func (s Spec) Steps(out io.Reader, log io.Writer, step func(Step)) error {
	stages := s.stages()
	total := 0
	for _, st := range stages {
		for _, in := range st.does {
			if in.title != "" {
				total++
			}
		}
	}
	n := 0
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if _, werr := io.WriteString(log, line); werr != nil {
				return werr
			}
		}
		if title, ok := stepTitle(stages, line); ok {
			n++
			step(Step{N: n, Of: total, Title: title})
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stepTitle finds the instruction that a line such as
// "[2/3] STEP 4/9: RUN set -eu; ..." announces. The FROM is step 1.
func stepTitle(stages []stage, line string) (string, bool) {
	var st, of, n, m int
	head, _, ok := strings.Cut(line, ": ")
	if !ok {
		return "", false
	}
	if c, err := fmt.Sscanf(head, "[%d/%d] STEP %d/%d", &st, &of, &n, &m); c != 4 || err != nil {
		return "", false
	}
	if st < 1 || st > len(stages) || n < 2 || n-2 >= len(stages[st-1].does) {
		return "", false
	}
	title := stages[st-1].does[n-2].title
	return title, title != ""
}
