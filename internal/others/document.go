package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeDocument writes the results in a folder into a Markdown file, in place of its table of results
// and what follows.
func writeDocument(file, folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s: no results (run the projects first)", folder)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const tableHead = "| project | version |"
	text, _, ok := strings.Cut(string(page), tableHead)
	if !ok {
		return fmt.Errorf("%s: no table of results", file)
	}
	cells := make(map[string]string) // by the start of their line, and the release
	seconds := make(map[string]int)  // by release
	rows := []string{"| **all** | |"}
	var reasons []string // lines
	for _, name := range names {
		var r result
		content, err := os.ReadFile(name)
		if err = errors.Join(err, json.Unmarshal(content, &r)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		differing := make(map[string]bool)
		for _, d := range r.Differences {
			differing[d.Package+d.Test] = true
			reasons = append(reasons, fmt.Sprintf("| %s: %s | %s |\n", r.Name, d.Test, strings.ReplaceAll(d.Reason, "|", `\|`)))
		}
		row := fmt.Sprintf("| %s | %s |", r.Name, r.Version)
		rows = append(rows, row)
		cells[row+r.Go] = fmt.Sprintf("%d of %d, %d s, %s", r.Tests-len(differing), r.Tests, r.Seconds, r.Tare)
		seconds[r.Go] += r.Seconds
		cells[rows[0]+r.Go] = fmt.Sprintf("%d min", seconds[r.Go]/60)
	}
	releases := slices.Sorted(maps.Keys(seconds))
	text += tableHead + " " + strings.Join(releases, " | ") + " |\n"
	text += "|---|---|" + strings.Repeat("---|", len(releases)) + "\n"
	slices.Sort(rows)
	for _, row := range slices.Compact(rows) {
		text += row
		for _, release := range releases {
			text += fmt.Sprintf(" %s |", strings.TrimSuffix(cells[row+release], ", "))
		}
		text += "\n"
	}
	slices.Sort(reasons)
	text += "\n## Which tests differ, and why?\n\n| test | reason |\n|---|---|\n"
	return os.WriteFile(file, []byte(text+strings.Join(slices.Compact(reasons), "")), 0o644)
}
