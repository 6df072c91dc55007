package benchmark

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/contender"
)

// Engine is one of the compared libraries.
type Engine struct {
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	Package string `yaml:"package"` // of its benchmarks, relative to the module's folder
	Prefix  string `yaml:"prefix"`  // of its benchmarks' names, after "Benchmark"
	Part    string `yaml:"part"`    // the sub-benchmark of each that is the engine's; "" is the whole
	Module  string `yaml:"module"`  // the module whose version is shown in addition to Go's

	// Needs is the load generator, in place of Package; see contender.LoadGenerators. Requests is a
	// pattern in its output, whose group is the number of requests. Errors is a pattern in it if
	// requests failed; "" is none.
	Needs    string `yaml:"needs"`
	Requests string `yaml:"requests"`
	Errors   string `yaml:"errors"`
}

// Row is what all engines run: a benchmark or a load.
type Row struct {
	Benchmark string `yaml:"benchmark"`  // without "Benchmark" and the engine's prefix
	Procs     int    `yaml:"gomaxprocs"` // 0 is the number of processors
	Once      bool   `yaml:"once"`       // one iteration, however long it takes

	// Run has the arguments of each load generator, in place of Benchmark, with {url} and {seconds}.
	// Set are settings of the server's nginx.conf.
	Run map[string]string `yaml:"run"`
	Set map[string]string `yaml:"set"`
}

// Fault describes the first invalid value of a library, or of a load generator.
func (e *Engine) Fault(isTool bool) string {
	if !isTool {
		if e.Name == "" || e.Title == "" || e.Package == "" {
			return "want name, title and package"
		}
		if e.Needs != "" {
			return "needs: load generators also need server, outside engines"
		}
		return ""
	}
	requests, err := regexp.Compile(e.Requests)
	_, errorsErr := regexp.Compile(e.Errors)
	switch all := contender.LoadGenerators(); {
	case e.Name == "" || e.Title == "" || !slices.Contains(all, e.Needs):
		return fmt.Sprintf("want name, title, and needs, one of %s", strings.Join(all, ", "))
	case err != nil || requests.NumSubexp() != 1:
		return "requests: want a pattern with one group, the number of requests"
	case errorsErr != nil:
		return "errors: " + errorsErr.Error()
	}
	return ""
}
