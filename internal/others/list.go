package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// project is an entry of projects.yaml: a module whose tests run, or an application that a script
// drives with real clients from its start to SIGTERM.
type project struct {
	Module   string        `yaml:"module"` // "std" is the standard library
	Version  string        `yaml:"version"`
	Packages []string      `yaml:"packages"` // patterns, ./... by default; or the application's package
	Tags     string        `yaml:"tags"`
	Modes    []string      `yaml:"modes"` // all by default
	Run      string        `yaml:"run"`   // a regular expression of tests, all by default
	Limit    time.Duration `yaml:"limit"` // for the tests of a package, 5 minutes by default
	Quick    bool          `yaml:"quick"` // "make check-slow" runs it
	// Script names a file of the folder applications. Tools are other programs that it needs.
	Script string   `yaml:"script"`
	Tools  []string `yaml:"tools"` // package@version
	// Differences has the reasons of known differences, by regular expressions of "mode test". A
	// reason is "document: quotation", and the document must contain the quotation.
	Differences map[string]string `yaml:"differences"`
}

// allModes are the modes that hook.go knows. "both" comes first: see comparison.compare.
const allModes = "both,default,on-loop,closing,transport"

func (p *project) name() string {
	if p.Script != "" {
		return p.Script
	}
	return p.Module
}

// readList reads projects.yaml of a checkout, and checks its quotations.
func readList(checkout string) (all []*project, err error) {
	if _, err := yamlfile.Read(filepath.Join(checkout, "internal", "others", "projects.yaml"), &all); err != nil {
		return nil, err
	}
	for _, p := range all {
		const defaultLimit = 5 * time.Minute
		if p.Limit == 0 {
			p.Limit = defaultLimit
		}
		if len(p.Packages) == 0 {
			p.Packages = []string{"./..."}
		}
		for pattern, cited := range p.Differences {
			if _, err := regexp.Compile(pattern); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name(), err)
			}
			if err := checkQuotation(checkout, cited); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", p.name(), pattern, err)
			}
		}
	}
	return all, nil
}

// checkQuotation reports an error unless a document contains what is cited. Line ends and the
// marks of comments do not count.
func checkQuotation(checkout, cited string) error {
	document, quotation, _ := strings.Cut(cited, ": ")
	text, err := os.ReadFile(filepath.Join(checkout, document))
	if err != nil {
		return err
	}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", "\n")), " ")
	if quotation == "" || !strings.Contains(flat, quotation) {
		return fmt.Errorf("%s does not contain %q", document, quotation)
	}
	return nil
}

// reason returns the documented reason of a difference, or "". The reason of a test is also that of
// its subtests.
func (p *project) reason(mode, test string) string {
	for pattern, cited := range p.Differences {
		if regexp.MustCompile("^(?:" + pattern + ")(/|$)").MatchString(mode + " " + test) {
			return cited
		}
	}
	return ""
}
