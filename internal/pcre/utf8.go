package pcre

import (
	"errors"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

var errUTF8 = errors.New("with (*UTF8), only the features of package regexp are supported")

// parseUTF8 parses an expression that matches code points, with the parser of package regexp.
func parseUTF8(source string, fold bool) (*node, []string, error) {
	if fold {
		source = "(?i)" + source
	}
	re, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, nil, errUTF8
	}
	return fromSyntax(re), re.CapNames(), nil
}

// fromSyntax converts a tree of package regexp.
func fromSyntax(re *syntax.Regexp) *node {
	n := &node{op: opCat, lazy: re.Flags&syntax.NonGreedy != 0, min: re.Min, max: re.Max, n: re.Cap}
	for _, s := range re.Sub {
		n.subs = append(n.subs, fromSyntax(s))
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return &node{op: opSet}
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			ranges := []rune{c, c}
			for f := unicode.SimpleFold(c); re.Flags&syntax.FoldCase != 0 && f != c; f = unicode.SimpleFold(f) {
				ranges = append(ranges, f, f)
			}
			n.subs = append(n.subs, fromRanges(ranges))
		}
	case syntax.OpCharClass:
		return fromRanges(re.Rune)
	case syntax.OpAnyChar:
		return fromRanges([]rune{0, unicode.MaxRune})
	case syntax.OpAnyCharNotNL:
		return fromRanges([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpBeginText:
		n.op = opBegin
	case syntax.OpEndText:
		if n.op = opEnd; re.Flags&syntax.WasDollar != 0 {
			n.op = opEndOrLine
		}
	case syntax.OpBeginLine:
		n.op = opLineBegin
	case syntax.OpEndLine:
		n.op = opLineEnd
	case syntax.OpWordBoundary:
		n.op = opWord
	case syntax.OpNoWordBoundary:
		n.op = opNoWord
	case syntax.OpCapture:
		n.op = opCapture
	case syntax.OpAlternate:
		n.op = opAlt
	case syntax.OpStar:
		n.op, n.min, n.max = opRepeat, 0, -1
	case syntax.OpPlus:
		n.op, n.min, n.max = opRepeat, 1, -1
	case syntax.OpQuest:
		n.op, n.min, n.max = opRepeat, 0, 1
	case syntax.OpRepeat:
		n.op = opRepeat
	default: // OpEmptyMatch, OpConcat
	}
	return n
}

// fromRanges returns a node for one code point of the ranges. Few code points become their bytes,
// which tries and runs are made of.
func fromRanges(ranges []rune) *node {
	n, count := &node{op: opSet}, 0
	alternatives := &node{op: opAlt}
	for i := 0; i < len(ranges); i += 2 {
		from, to := ranges[i], ranges[i+1]
		if from < utf8.RuneSelf {
			n.set.addRange(byte(from), byte(min(to, utf8.RuneSelf-1)))
		}
		for c := max(from, utf8.RuneSelf); c <= to; c++ {
			if count++; count > maxOrbit {
				return &node{op: opRunes, runes: ranges}
			}
			alternatives.subs = append(alternatives.subs, bytesOf(c))
		}
	}
	if count == 0 {
		return n
	}
	if n.set != (set{}) {
		alternatives.subs = append(alternatives.subs, n)
	}
	if len(alternatives.subs) == 1 {
		return alternatives.subs[0]
	}
	return alternatives
}

// maxOrbit is the greatest number of code points with more than one byte in UTF-8 that differ in
// case only.
const maxOrbit = 4

// bytesOf returns a node for a code point.
func bytesOf(c rune) *node {
	n := &node{op: opCat}
	for _, b := range []byte(string(c)) {
		sub := &node{op: opSet}
		sub.set.add(b)
		n.subs = append(n.subs, sub)
	}
	return n
}
