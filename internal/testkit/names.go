package testkit

import (
	"regexp"
	"strings"
)

var testName = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)

// NamesOfTests returns the names of tests, fuzz targets and benchmarks in a text.
func NamesOfTests(text string) []string { return testName.FindAllString(text, -1) }

// IsTestFunction reports whether package testing calls a function of this name.
func IsTestFunction(name string) bool {
	return testName.FindString(name) == name || strings.HasPrefix(name, "Example")
}
