package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// undocumented returns the number of differences without a reason.
func (r *result) undocumented() (n int) {
	for _, d := range r.Differences {
		if d.Reason == "" {
			n++
		}
	}
	return n
}

// summary returns a line about the result, and its problems.
func (r *result) summary() string {
	s := fmt.Sprintf("%s %s, %s, %d s: %d tests, %d differences, %d without a reason", r.Name, r.Version, r.Go, r.Seconds,
		r.Tests, len(r.Differences), r.undocumented())
	s += fmt.Sprintf("; %d fail with net/http, %d differed only once", r.Failed, r.Unsteady)
	return strings.Join(append([]string{s}, r.Problems...), "\n")
}

// tableHead begins the table of results, which follows the text of a document.
const tableHead = "| project | version |"

// writeDocument writes the results in a folder into a Markdown file.
func writeDocument(file, folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s: no results (run the projects first)", folder)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, _, ok := strings.Cut(string(page), tableHead)
	if !ok {
		return fmt.Errorf("%s: no table of results", file)
	}
	cells := make(map[string]map[string]string) // by the start of a project's line, and release
	seconds := make(map[string]int)             // by release
	reasons := make(map[string]map[string]bool) // tests by reason
	for _, name := range names {
		var r result
		content, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(content, &r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		differing := make(map[string]bool)
		for _, d := range r.Differences {
			differing[d.Package+d.Test] = true
			put(reasons, d.Reason, r.Name+": "+d.Test, true)
		}
		put(cells, fmt.Sprintf("| %s | %s |", r.Name, r.Version), r.Go,
			fmt.Sprintf("%d of %d, %d s", r.Tests-len(differing), r.Tests, r.Seconds))
		seconds[r.Go] += r.Seconds
		put(cells, "| **all** | |", r.Go, fmt.Sprintf("%d min", seconds[r.Go]/60))
	}
	releases := slices.Sorted(maps.Keys(seconds))
	text += tableHead + " " + strings.Join(releases, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(releases))
	for _, row := range slices.Sorted(maps.Keys(cells)) {
		text += "\n" + row
		for _, release := range releases {
			text += fmt.Sprintf(" %s |", cells[row][release])
		}
	}
	text += "\n\n## Which tests differ, and why?\n\n| reason | tests |\n|---|---|\n"
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests := strings.Join(slices.Sorted(maps.Keys(reasons[reason])), "<br>")
		text += fmt.Sprintf("| %s | %s |\n", strings.ReplaceAll(reason, "|", `\|`), tests)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// put sets an element of a map of maps.
func put[V any](m map[string]map[string]V, outer, inner string, value V) {
	if m[outer] == nil {
		m[outer] = make(map[string]V)
	}
	m[outer][inner] = value
}
