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

// summary returns a line about the result.
func (r *result) summary() string {
	s := fmt.Sprintf("%s, %s: %d tests, %d differences, %d without a reason, %d s", r.Name, r.Go, r.Tests,
		len(r.Differences), r.undocumented(), r.Seconds)
	if r.Failed > 0 {
		s += fmt.Sprintf("; %d fail with net/http, too", r.Failed)
	}
	if r.Unsteady > 0 {
		s += fmt.Sprintf("; %d passed when run again alone", r.Unsteady)
	}
	for _, p := range r.Problems {
		s += "\n" + p
	}
	return s
}

// readResults reads all results of a folder, sorted by name and Go release.
func readResults(folder string) (all []*result, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := new(result)
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no results (run the projects first)", folder)
	}
	slices.SortFunc(all, func(a, b *result) int { return strings.Compare(a.Name+" "+a.Go, b.Name+" "+b.Go) })
	return all, nil
}

// writeDocument writes the results of a folder as Markdown.
func writeDocument(file, folder string, all *list) error {
	results, err := readResults(folder)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(documentHead)
	reasons := make(map[string][]string) // tests by reason
	tests, seconds := 0, 0
	for _, r := range results {
		tests, seconds = tests+r.Tests, seconds+r.Seconds
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d s |\n", r.Name, strings.TrimPrefix(r.Go, "go"), r.Tests+r.Failed,
			r.Tests, r.Tests-differing(r), r.Seconds)
		for _, d := range r.Differences {
			name := r.Name + ": " + d.Test
			if !slices.Contains(reasons[d.Reason], name) {
				reasons[d.Reason] = append(reasons[d.Reason], name)
			}
		}
	}
	fmt.Fprintf(&b, "\nAll took %d minutes for %d tests.\n", seconds/60, tests)
	b.WriteString("\n## Which tests fail, and why?\n")
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		document, quotation, _ := strings.Cut(reason, ": ")
		if reason == "" {
			document, quotation = "Without a reason", ""
		}
		fmt.Fprintf(&b, "\n%s: %s\n\n", document, quotation)
		for _, name := range reasons[reason] {
			fmt.Fprintf(&b, "- %s\n", name)
		}
	}
	b.WriteString(skippedTests(all))
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// differing returns how many tests differ in one mode or more.
func differing(r *result) int {
	tests := make(map[string]bool)
	for _, d := range r.Differences {
		tests[d.Package+" "+d.Test] = true
	}
	return len(tests)
}

func skippedTests(all *list) string {
	var b strings.Builder
	for _, s := range all.Suites {
		for _, test := range slices.Sorted(maps.Keys(s.Skip)) {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", s.Module, test, s.Skip[test])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n## Which tests do not run?\n\n| project | test | why |\n|---|---|---|\n" + b.String()
}

const documentHead = `# Compatibility: other projects' tests

TODO
`
