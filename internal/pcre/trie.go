package pcre

import (
	"cmp"
	"slices"
)

// trie finds those of a set of alternatives that may match at a position of the subject, by the
// texts that they begin with. Case is ignored: the program decides.
type trie struct {
	// nodes are in breadth-first order: children, and the alternatives that end in a node, lie
	// between those of the node before and of the node after.
	nodes []trieNode
	ends  []int32
	root  [256]int32 // the children of the root, by byte
}

type trieNode struct {
	label       byte
	child, ends int32 // where they begin
}

type trieText struct {
	text string
	alt  int32
}

// newTrie returns a trie for the texts of each alternative. It returns nil if none would be
// excluded.
func newTrie(alternatives [][]string) *trie {
	var all []trieText
	useful := false
	for i, texts := range alternatives {
		for _, t := range texts {
			all = append(all, trieText{t, int32(i)})
		}
		useful = useful || !slices.Contains(texts, "")
	}
	if !useful {
		return nil
	}
	slices.SortFunc(all, func(a, b trieText) int {
		return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.alt, b.alt))
	})
	t := &trie{nodes: []trieNode{{}}}
	t.build(slices.Compact(all))
	for i := t.nodes[0].child; i < t.nodes[1].child; i++ {
		t.root[t.nodes[i].label] = i
	}
	return t
}

func (t *trie) build(all []trieText) {
	type job struct {
		texts []trieText
		depth int
	}
	jobs := []job{{all, 0}} // by node
	for i := 0; i < len(jobs); i++ {
		j := jobs[i]
		t.nodes[i].child, t.nodes[i].ends = int32(len(t.nodes)), int32(len(t.ends))
		for len(j.texts) > 0 && len(j.texts[0].text) == j.depth {
			t.ends = append(t.ends, j.texts[0].alt)
			j.texts = j.texts[1:]
		}
		for len(j.texts) > 0 {
			label, n := j.texts[0].text[j.depth], 1
			for n < len(j.texts) && j.texts[n].text[j.depth] == label {
				n++
			}
			t.nodes = append(t.nodes, trieNode{label: label})
			jobs = append(jobs, job{j.texts[:n], j.depth + 1})
			j.texts = j.texts[n:]
		}
	}
	t.nodes = append(t.nodes, trieNode{child: int32(len(t.nodes)), ends: int32(len(t.ends))})
}

// next returns the child of a node for a byte, or 0.
func (t *trie) next(node int32, c byte) int32 {
	c = lower(c)
	if node == 0 {
		return t.root[c]
	}
	for i := t.nodes[node].child; i < t.nodes[node+1].child; i++ {
		if t.nodes[i].label == c {
			return i
		}
	}
	return 0
}

// endsAt returns the alternatives whose text ends in a node.
func (t *trie) endsAt(node int32) []int32 { return t.ends[t.nodes[node].ends:t.nodes[node+1].ends] }

// begins reports whether one of the texts is at a position of the subject.
func (t *trie) begins(s string, at int) bool {
	for node := int32(0); at < len(s); at++ {
		if node = t.next(node, s[at]); node == 0 {
			return false
		}
		if t.nodes[node].ends < t.nodes[node+1].ends {
			return true
		}
	}
	return false
}
