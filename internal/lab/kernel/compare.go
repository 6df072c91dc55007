package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Assignment is a setting and its value in a write-up.
type Assignment struct{ Name, Value string }

// Parse reads settings in the format of sysctl.conf: "name = value" lines, empty lines and
// comments. The error begins with the number of the line.
func Parse(text string) (all []Assignment, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		a := Assignment{strings.TrimSpace(name), clean(value)}
		if _, err := (Tree{}).file(a.Name); !ok || err != nil || a.Value == "" {
			return nil, fmt.Errorf("line %d: %q: want a setting and its value, such as %q", n, line,
				"net.core.somaxconn = 65535")
		}
		if slices.ContainsFunc(all, func(b Assignment) bool { return b.Name == a.Name }) {
			return nil, fmt.Errorf("line %d: duplicate setting %q", n, a.Name)
		}
		all = append(all, a)
	}
	return all, nil
}

// Comparison compares a write-up's setting with this machine's.
type Comparison struct {
	Name       string `json:"name"`
	Theirs     string `json:"theirs"`
	Here       string `json:"here"`           // before any change; "" if this kernel has no such setting
	Want       string `json:"want,omitempty"` // the better value for a run; "" if Here is as good
	Does       string `json:"does,omitempty"` // the effect of the setting; "" if unknown
	Conclusion string `json:"conclusion"`     // whether the difference matters for the run, and why
}

// Compare compares a write-up's settings with the tree's. Settings whose difference affects a run
// come first. connections is the highest number of connections of the run.
func Compare(t Tree, theirs []Assignment, connections int) (rows []Comparison) {
	known := Known()
	for _, a := range theirs {
		here, err := t.Read(a.Name)
		row := Comparison{Name: a.Name, Theirs: a.Value, Here: here}
		i := slices.IndexFunc(known, func(s Setting) bool { return s.Name == a.Name })
		switch {
		case i < 0:
			row.Conclusion = "unknown: tare does not know this setting and does not change it"
		case err != nil && known[i].Use != None:
			row.Does, row.Conclusion = known[i].Does, "unknown: it cannot be read here; containers do not see all settings of the machine"
		default:
			row.Does = known[i].Does
			row.Want, row.Conclusion = known[i].judge(a.Value, here, connections)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Comparison) int { return cmp.Compare(b.notable(), a.notable()) })
	return rows
}

// notable returns 1 if another value is better for a run, and 0 otherwise.
func (r *Comparison) notable() int {
	if r.Want != "" {
		return 1
	}
	return 0
}

// judge returns the value that a run should have, or "" if here is as good, and the reason.
func (s *Setting) judge(theirs, here string, connections int) (want, conclusion string) {
	switch {
	case s.Use == None:
		return "", "no: " + s.Why
	case here == theirs:
		return "", "the same here"
	case s.Use == Value && slices.Contains(s.Alike, here):
		return "", fmt.Sprintf("no: over loopback %s has the same effect", here)
	case s.Use == Value:
		return theirs, "yes: " + s.Why
	}
	a, errA := numbers(theirs)
	b, errB := numbers(here)
	count := 1
	if s.Use == Range {
		count = 2
	}
	if errA != nil || errB != nil || len(a) != count || len(b) != count {
		return "", "unknown: tare expects other numbers"
	}
	if s.Use == Range {
		want := fmt.Sprintf("%d %d", min(b[0], max(a[0], uint64(s.Lowest))), max(a[1], b[1]))
		if want == here {
			return "", "no: the range here is as large"
		}
		return want, "yes: " + s.Why
	}
	switch need := uint64(s.Each) * uint64(connections); {
	case b[0] >= a[0]:
		return "", "no: the limit here is higher"
	case need > 0 && b[0] >= need:
		return "", fmt.Sprintf("no: %d are enough for %d connections", need, connections)
	}
	return theirs, "yes: " + s.Why
}

// numbers reads the numbers of a value.
func numbers(value string) (all []uint64, err error) {
	for _, word := range strings.Fields(value) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
