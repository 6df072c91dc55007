package report

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

// Documents quote figures of runs whose records are kept in RecordsDir. A quote is
//
//	<!-- record: NAME [COLUMN=VALUE ...] FIGURE [DIGITS] -->2.02 (1.98–2.07)<!-- end -->
//
// NAME is a file of RecordsDir without its suffix. The values select one line of the run's table:
// results.csv or targets.csv. COLUMN= selects an empty cell, and COLUMN=* any other; a _ stands for a
// space. FIGURE is a column of this line, and DIGITS its decimals: 2 is "2.02", -2 rounds to
// hundreds, and (2) adds the interval. Without a selection FIGURE is the date of the run.

// RecordsDir holds the records of the runs that documents quote, below the root of the source.
const RecordsDir = "docs/results"

func quoteMark() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<!-- record: (.*?) -->(.*?)<!-- end -->`)
}

// quotes reads the records of a source tree, each once.
type quotes struct {
	root    string
	records map[string]*table
}

// table has the lines of a run's table, by column, and in facts the date of the run.
type table struct {
	facts map[string]string
	lines []map[string]string
}

// FillQuotes writes the figures of their records into the documents of a source tree. It returns
// the names of the documents that changed; with check, it does not write them.
func FillQuotes(root string, check bool) (changed []string, err error) {
	q := quotes{root, make(map[string]*table)}
	names := documents(root)
	if len(names) == 0 {
		return nil, errors.New("no README.md and no docs: want the root of a source tree")
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		filled := ""
		if err == nil {
			filled, err = q.fill(string(text))
		}
		if err == nil && filled != string(text) {
			changed = append(changed, name)
			if !check {
				err = os.WriteFile(name, []byte(filled), 0o644)
			}
		}
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
	}
	return changed, nil
}

func documents(root string) (names []string) {
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/questions/*.md"} {
		pages, _ := filepath.Glob(filepath.Join(root, pattern)) // fails for an invalid pattern only
		names = append(names, pages...)
	}
	return names
}

func (q quotes) fill(text string) (filled string, err error) {
	mark := quoteMark()
	filled = mark.ReplaceAllStringFunc(text, func(quote string) string {
		words := mark.FindStringSubmatch(quote)[1]
		figure, figureErr := q.figure(words)
		if figureErr != nil {
			err = fmt.Errorf("record: %s: %w", words, figureErr)
		}
		return "<!-- record: " + words + " -->" + figure + "<!-- end -->"
	})
	if strings.Count(text, "<!-- record:") != len(mark.FindAllString(text, -1)) {
		err = errors.New("a mark <!-- record: … --> has no <!-- end -->")
	}
	return filled, err
}

func (q quotes) figure(words string) (string, error) {
	m := regexp.MustCompile(`^(\S+)((?: \w+=\S*)*) (\w+)(?: (\(?)(-?\d)\)?)?$`).FindStringSubmatch(words)
	if m == nil {
		return "", errors.New("want NAME [COLUMN=VALUE ...] FIGURE [DIGITS]")
	}
	selection, column, interval, digits := m[2], m[3], m[4] != "", m[5]
	rec, err := q.record(m[1])
	if err != nil {
		return "", err
	}
	line := rec.facts
	if selection != "" {
		if line, err = rec.line(strings.Fields(selection)); err != nil {
			return "", err
		}
	}
	switch value := line[column]; {
	case value == "":
		return "", fmt.Errorf("no %s; there are %s", column, strings.Join(slices.Sorted(maps.Keys(line)), ", "))
	case digits == "":
		return value, nil
	case !interval:
		return rounded(value, digits)
	}
	text := make([]string, 3)
	for i, side := range []string{"", "_lo", "_hi"} {
		if text[i], err = rounded(line[column+side], digits); err != nil {
			return "", fmt.Errorf("no interval: %w", err)
		}
	}
	return fmt.Sprintf("%s (%s–%s)", text[0], text[1], text[2]), nil
}

// rounded returns a number with these decimals; fewer than 0 round to tens, hundreds and so on.
func rounded(value, digits string) (string, error) {
	v, err := strconv.ParseFloat(value, 64)
	decimals, digitsErr := strconv.Atoi(digits)
	if err := cmp.Or(err, digitsErr); err != nil {
		return "", err
	}
	if decimals > 0 {
		return strconv.FormatFloat(v, 'f', decimals, 64), nil
	}
	unit := math.Pow10(-decimals)
	return loadreport.Count(math.Round(v/unit) * unit), nil
}

func (q quotes) record(name string) (*table, error) {
	if rec := q.records[name]; rec != nil {
		return rec, nil
	}
	run, err := sample.Read(filepath.Join(q.root, RecordsDir, name+sample.PackedSuffix))
	if err != nil {
		return nil, err
	}
	rec := &table{facts: map[string]string{"date": run.Started.Format("2 January 2006")}}
	rows, err := csv.NewReader(strings.NewReader(New(run).csv())).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		line := make(map[string]string)
		for i, head := range rows[0] {
			line[head] = row[i]
		}
		rec.lines = append(rec.lines, line)
	}
	q.records[name] = rec
	return rec, nil
}

// line returns the only line with the selected values.
func (r *table) line(selection []string) (line map[string]string, err error) {
	n := 0
	for _, l := range r.lines {
		if !slices.ContainsFunc(selection, func(word string) bool {
			column, want, _ := strings.Cut(word, "=")
			has, ok := l[column]
			return !ok || strings.ReplaceAll(has, " ", "_") != want && (want != "*" || has == "")
		}) {
			line, n = l, n+1
		}
	}
	if n != 1 {
		return nil, fmt.Errorf("%d lines have these values: want 1", n)
	}
	return line, nil
}
