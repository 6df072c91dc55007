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
	if r.Failed+r.Unsteady > 0 {
		s += fmt.Sprintf("; %d fail with net/http, %d differed only once", r.Failed, r.Unsteady)
	}
	return strings.Join(append([]string{s}, r.Problems...), "\n")
}

// tableHead is the line of a document that results follow.
const tableHead = "|---|---|---|---|---|---|---|\n"

// writeDocument writes the results in a folder into a Markdown file.
func writeDocument(file, folder string, all []*project) error {
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s: no results (run the projects first)", folder)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, _, ok := strings.Cut(string(page), tableHead)
	if !ok {
		return fmt.Errorf("%s: no table of results", file)
	}
	var rows []string
	reasons := make(map[string]map[string]bool) // tests by reason
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var r result
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		differing := make(map[string]bool)
		for _, d := range r.Differences {
			differing[d.Package+d.Test] = true
			if reasons[d.Reason] == nil {
				reasons[d.Reason] = make(map[string]bool)
			}
			reasons[d.Reason][r.Name+": "+d.Test] = true
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %d s |\n", r.Name, r.Version,
			strings.TrimPrefix(r.Go, "go"), r.Tests+r.Failed, r.Tests, r.Tests-len(differing), r.Seconds))
	}
	slices.Sort(rows)
	text := head + tableHead + strings.Join(rows, "") + "\n## Which tests differ, and why?\n\n| reason | tests |\n|---|---|\n"
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests := strings.Join(slices.Sorted(maps.Keys(reasons[reason])), "<br>")
		text += fmt.Sprintf("| %s | %s |\n", strings.ReplaceAll(reason, "|", `\|`), tests)
	}
	text += "\n## Which tests do not run?\n\n| project | tests | reason |\n|---|---|---|\n"
	for _, p := range all {
		for _, tests := range slices.Sorted(maps.Keys(p.Skip)) {
			text += fmt.Sprintf("| %s | %s | %s |\n", p.name(), tests, p.Skip[tests])
		}
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
