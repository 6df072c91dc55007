package profile

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Graph is a flame graph, laid out for a template: the root is at the bottom, and the width of a
// box is its CPU time. All lengths are in units of its view box.
type Graph struct {
	Title         string
	Width, Height float64
	Boxes         []Box
	Alt           string
}

// Box is a function in a Graph.
type Box struct {
	X, Y, Width, Height float64
	Class               string
	Text                string // what fits the box; "" if nothing does
	Title               string // the whole name with its time
}

const (
	graphWidth = 1072
	rowHeight  = 17
	// leastWidth is the width below which a box cannot be seen.
	leastWidth = 0.7
	// characterWidth is that of the page's font for these graphs, on average.
	characterWidth = 6.1
	// fewCharacters is the shortest text of a box.
	fewCharacters = 3
	// changeLevels is the number of shades of a difference, in each direction.
	changeLevels = 4
)

// Flame draws a profile.
func Flame(p *Profile) *Graph {
	return draw(p, func(n *Node, _ []Frame) (class, more string) { return kindOf(n), "" })
}

// kindOf returns the style of a function.
func kindOf(n *Node) string {
	switch {
	case n.Kernel:
		return "flame-kernel"
	case isGoName(n.Name) && (goPackage(n.Name) == "runtime" || len(n.Name) > 17 && n.Name[:17] == "internal/runtime/"):
		return "flame-runtime"
	case isGoName(n.Name):
		return "flame-go"
	}
	return "flame-other"
}

// Difference draws a profile in the colors of its difference to the control's: a box is as wide as
// in Flame, and darker the more its function, called like this, takes longer or shorter.
func Difference(p, control *Profile) *Graph {
	before := Fold(control.Stacks)
	all := math.Max(p.Us(p.Samples()), control.Us(control.Samples()))
	return draw(p, func(n *Node, stack []Frame) (class, more string) {
		was := 0.0
		if c := before.find(stack); c != nil {
			was = control.Us(c.Count)
		}
		change := p.Us(n.Count) - was
		return changeClass(change / all), fmt.Sprintf("; %+.2f µs", change)
	})
}

// changeClass returns the style of a difference as a share of the whole.
func changeClass(share float64) string {
	const each = 0.02 // share of a level; the last has all that is above
	level := min(changeLevels, int(math.Ceil(math.Abs(share)/each)))
	switch {
	case math.Abs(share) < each/4:
		return "flame-same"
	case share > 0:
		return fmt.Sprintf("flame-more-%d", level)
	}
	return fmt.Sprintf("flame-less-%d", level)
}

// find returns the node that a path from the root leads to, or nil.
func (n *Node) find(stack []Frame) *Node {
	for _, f := range stack {
		next := (*Node)(nil)
		for _, c := range n.Children {
			if c.Frame == f {
				next = c
				break
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

// drawing is a Graph that is being drawn.
type drawing struct {
	*Graph
	profile *Profile
	perUnit float64 // width of a sample
	style   func(n *Node, stack []Frame) (class, more string)
}

func draw(p *Profile, style func(n *Node, stack []Frame) (class, more string)) *Graph {
	root := Fold(p.Stacks)
	if root.Count == 0 {
		return nil
	}
	d := drawing{Graph: &Graph{Title: p.Title, Width: graphWidth}, profile: p, style: style}
	d.perUnit = graphWidth / float64(root.Count)
	d.Height = float64(1+root.Depth(int(math.Ceil(leastWidth/d.perUnit)))) * rowHeight
	d.Alt = fmt.Sprintf("Flame graph of %s: %.1f µs of CPU time per request, from %d samples.", p.Title,
		p.Us(root.Count), root.Count)
	d.add(root, nil, 0, 0)
	return d.Graph
}

// add draws a node and those above it.
func (d *drawing) add(n *Node, stack []Frame, x float64, level int) {
	width := float64(n.Count) * d.perUnit
	if width < leastWidth {
		return
	}
	class, more := d.style(n, stack)
	if level == 0 {
		class = "flame-root"
	}
	d.Boxes = append(d.Boxes, Box{
		X: rounded(x), Y: d.Height - float64(level+1)*rowHeight, Width: rounded(width), Height: rowHeight - 1,
		Class: class, Text: fitted(n.Text(), width),
		Title: fmt.Sprintf("%s: %.2f µs, %.1f %%%s", n.Text(), d.profile.Us(n.Count),
			100*float64(n.Count)*d.perUnit/graphWidth, more),
	})
	for _, c := range n.Children {
		d.add(c, append(stack[:len(stack):len(stack)], c.Frame), x, level+1)
		x += float64(c.Count) * d.perUnit
	}
}

func rounded(v float64) float64 { return math.Round(10*v) / 10 }

// fitted returns as much of a text as fits a box.
func fitted(text string, width float64) string {
	room := int((width - 4) / characterWidth)
	n := utf8.RuneCountInString(text)
	switch {
	case n <= room:
		return text
	case room < fewCharacters:
		return ""
	}
	runes := []rune(text)
	return string(runes[:room-1]) + "…"
}
