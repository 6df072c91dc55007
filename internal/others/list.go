package main

import (
	"cmp"
	"errors"
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
	Go       string        `yaml:"go"`       // the oldest release that it needs, such as go1.27; any by default
	Packages []string      `yaml:"packages"` // patterns, ./... by default; or the application's package
	Tags     string        `yaml:"tags"`
	Modes    []string      `yaml:"modes"` // all by default
	Run      string        `yaml:"run"`   // a regular expression of tests, all by default
	Skip     string        `yaml:"skip"`  // one of tests that do not run, with a reason in a comment
	Limit    time.Duration `yaml:"limit"` // for the tests of a package, 5 minutes by default
	Quick    bool          `yaml:"quick"` // "make check-slow" runs it
	// Script names a file of the folder applications. Tools are other programs that it needs.
	Script string   `yaml:"script"`
	Tools  []string `yaml:"tools"` // package@version
	// Differences has the reasons of known differences, by regular expressions of "mode test". A
	// reason is "document: quotation", and the document must contain the quotation.
	Differences map[string]string `yaml:"differences"`
	text        string            // of the script
}

func (p *project) name() string { return cmp.Or(p.Script, p.Module) }

// readList reads projects.yaml of a checkout and the scripts, and checks the quotations.
func readList(checkout string) (all []*project, err error) {
	folder := filepath.Join(checkout, "internal", "others")
	if _, err := yamlfile.Read(filepath.Join(folder, "projects.yaml"), &all); err != nil {
		return nil, err
	}
	for _, p := range all {
		p.Limit = cmp.Or(p.Limit, 5*time.Minute)
		if len(p.Modes) == 0 { // compare wants "both" first
			p.Modes = []string{"both", "default", "on-loop", "closing", "transport"}
		}
		if len(p.Packages) == 0 {
			p.Packages = []string{"./..."}
		}
		if p.Script != "" {
			text, err := os.ReadFile(filepath.Join(folder, "applications", p.Script+".sh"))
			if err != nil {
				return nil, err
			}
			p.text = string(text)
		}
		for pattern, cited := range p.Differences {
			_, err := regexp.Compile(pattern)
			if err = errors.Join(err, checkQuotation(checkout, cited)); err != nil {
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
	flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", "\n")), " ")
	if err == nil && (quotation == "" || !strings.Contains(flat, quotation)) {
		err = fmt.Errorf("%s does not contain %q", document, quotation)
	}
	return err
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
