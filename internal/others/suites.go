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

// list is the content of suites.yaml.
type list struct {
	Suites       []*suite       `yaml:"suites"`
	Applications []*application `yaml:"applications"`
}

// suite is a module whose tests run.
type suite struct {
	Module   string   `yaml:"module"` // "std" is the standard library
	Version  string   `yaml:"version"`
	Packages []string `yaml:"packages"` // patterns; ./... by default
	Modes    []string `yaml:"modes"`    // all by default
	Tags     string   `yaml:"tags"`
	// Limit is the most time that a package's tests take, once.
	Limit time.Duration `yaml:"limit"`
	// Quick is set for those that "make check-slow" runs.
	Quick bool `yaml:"quick"`
	// Skip has the tests that do not run, with the reason.
	Skip map[string]string `yaml:"skip"`
	// Differences has regular expressions of tests, which may begin with a mode and a space. The
	// values are "document: quotation", with the reason. The document must contain the quotation.
	Differences map[string]string `yaml:"differences"`
}

// defaultLimit is the most time that the tests of a package take, once, unless the suite has another.
const defaultLimit = 3 * time.Minute

func (s *suite) limit() time.Duration {
	if s.Limit > 0 {
		return s.Limit
	}
	return defaultLimit
}

// allModes are the modes that hook.go knows.
func allModes() []string {
	return []string{"default", "loops", "on-loop", "closing", "transport", "both"}
}

// readList reads suites.yaml of a checkout, and checks its quotations.
func readList(checkout string) (*list, error) {
	l := new(list)
	if _, err := yamlfile.Read(filepath.Join(checkout, "internal", "others", "suites.yaml"), l); err != nil {
		return nil, err
	}
	for _, s := range l.Suites {
		for pattern, cited := range s.Differences {
			if _, err := regexp.Compile(pattern); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Module, err)
			}
			if err := checkQuotation(checkout, cited); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.Module, pattern, err)
			}
		}
	}
	return l, nil
}

// checkQuotation reports an error unless a document contains what is cited. Line ends and the
// marks of comments do not count.
func checkQuotation(checkout, cited string) error {
	document, quotation, ok := strings.Cut(cited, ": ")
	if !ok {
		return fmt.Errorf("%q is not of the form \"document: quotation\"", cited)
	}
	text, err := os.ReadFile(filepath.Join(checkout, document))
	if err != nil {
		return err
	}
	flat := func(s string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n//", "\n")), " ")
	}
	if !strings.Contains(flat(string(text)), flat(quotation)) {
		return fmt.Errorf("%s does not contain %q", document, quotation)
	}
	return nil
}

// reason returns the documented reason of a difference, or "".
func (s *suite) reason(mode, test string) string {
	for pattern, cited := range s.Differences {
		if regexp.MustCompile("^(?:"+pattern+")$").MatchString(mode+" "+test) ||
			regexp.MustCompile("^(?:"+pattern+")(/.*)?$").MatchString(test) {
			return cited
		}
	}
	return ""
}
