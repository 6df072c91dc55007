package profile

import (
	"cmp"
	"slices"
)

// Node is a function in a tree of stacks.
type Node struct {
	Frame
	Count    int     // samples of the function and of those that it called
	Children []*Node // by name, so that equal trees are drawn alike
}

// Fold joins stacks into a tree. The root has a child for each role; these have the stacks.
func Fold(stacks []Stack) *Node {
	root := &Node{Frame: Frame{Name: "all processes"}}
	for i := range stacks {
		s := &stacks[i]
		at := root.child(Frame{Name: s.Role})
		root.Count += s.Count
		at.Count += s.Count
		for _, f := range s.Frames {
			at = at.child(f)
			at.Count += s.Count
		}
	}
	root.sort()
	return root
}

func (n *Node) child(f Frame) *Node {
	for _, c := range n.Children {
		if c.Frame == f {
			return c
		}
	}
	c := &Node{Frame: f}
	n.Children = append(n.Children, c)
	return c
}

func (n *Node) sort() {
	slices.SortFunc(n.Children, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Text(), b.Text()), cmp.Compare(a.Module, b.Module))
	})
	for _, c := range n.Children {
		c.sort()
	}
}

// Depth returns the number of levels below the node whose samples are at least least.
func (n *Node) Depth(least int) int {
	deepest := 0
	for _, c := range n.Children {
		if c.Count >= least {
			deepest = max(deepest, 1+c.Depth(least))
		}
	}
	return deepest
}
