package main

import (
	"fmt"
	"strings"
)

// Geometry of the plot, in pixels.
const (
	plotWidth = 860
	labelEnd  = 250
	barHeight = 12
	groupGap  = 14
	unit      = 220 // of 1.0, which is squid
	longest   = 2.4 // longer bars are cut, with their number beside
)

var colours = map[string]string{gateName: "#1f6feb", "squid": "#8c959f", "smokescreen": "#d4a72c", "bare relay": "#57ab5a"}

// plot is an SVG of each metric's medians, as ratios to squid's, with the gate's
// bars as lines.
func (r *result) plot() string {
	var b strings.Builder
	y := 56
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, strings.ReplaceAll(s, "<", "&lt;"))
	}
	x := labelEnd
	for _, name := range r.order {
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"14\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, colours[name])
		text(x+16, 24, "start", name)
		x += 110
	}
	text(labelEnd+unit, 44, "middle", "squid = 1")
	for _, row := range rows {
		squid, ok := r.stats("squid", row.metric)
		if !row.plot || !ok || squid.median == 0 {
			continue
		}
		top := y
		for _, name := range r.order {
			s, ok := r.stats(name, row.metric)
			if !ok {
				continue
			}
			ratio := s.median / squid.median
			width := int(unit * min(ratio, longest))
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", labelEnd, y, width, barHeight-2, colours[name])
			text(labelEnd+width+4, y+barHeight-3, "start", fmt.Sprintf("%.2f", ratio))
			y += barHeight
		}
		better := "less is better"
		if row.more {
			better = "more is better"
		}
		text(labelEnd-8, top+barHeight, "end", row.name)
		text(labelEnd-8, top+2*barHeight+2, "end", "("+better+")")
		for _, bar := range bars {
			if bar.metric == row.metric && bar.peer == "squid" {
				at := labelEnd + int(unit*bar.factor)
				fmt.Fprintf(&b, "<line x1=\"%d\" x2=\"%[1]d\" y1=\"%d\" y2=\"%d\" stroke=\"#cf222e\" stroke-width=\"2\"/>\n", at, top-3, y+1)
			}
		}
		y += groupGap
	}
	text(labelEnd, y+6, "start", "red: what is promised of the gate")
	fmt.Fprintf(&b, "<line x1=\"%d\" x2=\"%[1]d\" y1=\"48\" y2=\"%d\" stroke=\"#57606a\" stroke-dasharray=\"2 3\"/>\n", labelEnd+unit, y-groupGap)
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n%s</svg>\n", plotWidth, y+20, b.String())
}
