package load

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Parsing replaces a template's expressions by marks. A mark may stand anywhere in a URL and
// survives URL parsing unchanged. So a template is validated and parsed like any other request, and
// the marks show where the values go.
const (
	markBegin = "~tare~"
	markEnd   = "~"
)

// expression is the text between two pairs of braces.
type expression struct {
	kind     expressionKind
	from, to int64
}

type expressionKind uint8

const (
	sequence expressionKind = iota
	random
	hexadecimal
)

const (
	maxNumber = 1 << 60 // highest number in an expression
	maxHex    = 1024    // most digits of a hex expression
)

const wantExpression = "want {{seq}}, {{seq 5 9}}, {{random 5 9}} or {{hex 8}}"

// markExpressions replaces the expressions in a text by marks and appends them to all.
func markExpressions(text string, all *[]expression) (string, error) {
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		inside, behind, closed := strings.Cut(after, "}}")
		e, ok := parseExpression(strings.Fields(inside))
		if !closed || !ok {
			return "", badPlan("template %q: %s", text, wantExpression)
		}
		out.WriteString(markBegin + strconv.Itoa(len(*all)) + markEnd)
		*all = append(*all, e)
		rest = behind
	}
}

func parseExpression(words []string) (e expression, ok bool) {
	if len(words) == 0 {
		return e, false
	}
	var numbers []int64
	for _, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 || n > maxNumber {
			return e, false
		}
		numbers = append(numbers, n)
	}
	switch {
	case words[0] == "seq" && len(numbers) == 0:
		return expression{sequence, 0, maxNumber}, true
	case words[0] == "seq" && len(numbers) == 2 && numbers[0] <= numbers[1]:
		return expression{sequence, numbers[0], numbers[1]}, true
	case words[0] == "random" && len(numbers) == 2 && numbers[0] <= numbers[1]:
		return expression{random, numbers[0], numbers[1]}, true
	case words[0] == "hex" && len(numbers) == 1 && 0 < numbers[0] && numbers[0] <= maxHex:
		return expression{kind: hexadecimal, to: numbers[0]}, true
	}
	return e, false
}

// sequenceValues generates a worker's sequence numbers. No two workers generate the same one.
type sequenceValues struct{ count, step int64 }

// value returns the n-th value of a sequence, or a random one.
func (e *expression) value(n int64) string {
	switch e.kind {
	case sequence:
		return strconv.FormatInt(e.from+n%(e.to-e.from+1), 10)
	case random:
		return strconv.FormatInt(e.from+rand.Int64N(e.to-e.from+1), 10)
	}
	digits := make([]byte, e.to)
	for i := range digits {
		digits[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	return string(digits)
}

type templateFill struct {
	filled request   // returned by next
	parts  []*string // the parts of filled that hold marks
	texts  []string  // their texts, with marks
}

func newFill(q *request) *templateFill {
	f := &templateFill{filled: *q}
	own := &f.filled
	own.fields, own.params = slices.Clone(q.fields), slices.Clone(q.params) // workers share those of q
	parts := []*string{&own.url.target, &own.url.path, &own.url.query, &own.body}
	for i := range own.fields {
		parts = append(parts, &own.fields[i].value)
	}
	for i := range own.params {
		parts = append(parts, &own.params[i].value)
	}
	for _, p := range parts {
		if strings.Contains(*p, markBegin) {
			f.parts, f.texts = append(f.parts, p), append(f.texts, *p)
		}
	}
	return f
}

// next fills in new values. The result is valid until the next call.
func (f *templateFill) next(v *sequenceValues) *request {
	chosen := make([]string, len(f.filled.expressions))
	for i := range chosen {
		chosen[i] = f.filled.expressions[i].value(v.count)
	}
	v.count += v.step
	for i, p := range f.parts {
		*p = substitute(f.texts[i], chosen)
	}
	return &f.filled
}

func substitute(text string, chosen []string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, markBegin)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		digits, rest, _ := strings.Cut(after, markEnd)
		i, err := strconv.Atoi(digits)
		if err != nil || i >= len(chosen) {
			panic("load: BUG: mark without an expression: " + digits)
		}
		out.WriteString(chosen[i])
		text = rest
	}
}
