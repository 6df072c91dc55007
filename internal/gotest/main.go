// Command gotest runs "go test" with its arguments, prints what "go test" prints, and appends the
// tests that were skipped, with their reasons, to the file that GOTEST_SKIPS names. "make test"
// shows them at its end: a program that is missing hides what it would have tested.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout, os.Getenv("GOTEST_SKIPS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// run runs "go test" and returns its exit code.
func run(args []string, out io.Writer, skips string) (code int, err error) {
	c := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	c.Stderr = os.Stderr
	events, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return 0, err
	}
	skipped, err := report(events, out)
	if err != nil {
		return 0, err
	}
	_ = c.Wait() // the exit code says it
	return c.ProcessState.ExitCode(), record(skips, skipped)
}

// event is what "go test -json" prints (go doc test2json).
type event struct{ Action, Package, Test, Output string }

// report prints the output of packages and of tests that failed or did not end, and returns a line
// for each test that was skipped.
func report(events io.Reader, out io.Writer) (skipped []string, err error) {
	running := make(map[string]map[string]string) // the output of tests, by package and test
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return skipped, nil
		} else if err != nil {
			return nil, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(out, "%s", line) // of a program below "go test" that ignores -json
			continue
		}
		tests := running[e.Package]
		if tests == nil {
			tests = make(map[string]string)
			running[e.Package] = tests
		}
		switch {
		case e.Action == "build-output" || e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			tests[e.Test] += e.Output
		case e.Action == "fail" && e.Test == "":
			for _, text := range tests { // of tests that a panic or a timeout has ended
				fmt.Fprint(out, text)
			}
		case e.Action == "fail":
			fmt.Fprint(out, tests[e.Test])
			delete(tests, e.Test)
		case e.Action == "skip" && e.Test != "":
			skipped = append(skipped, e.Package+" "+e.Test+": "+reason(tests[e.Test]))
			delete(tests, e.Test)
		case e.Action == "pass":
			delete(tests, e.Test)
		}
	}
}

// reason returns the text of t.Skip, which stands between the test's first and last line.
func reason(output string) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			return text
		}
	}
	return "no reason is given"
}

func record(file string, skipped []string) error {
	if file == "" || len(skipped) == 0 {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(skipped, "\n") + "\n"); err != nil {
		return err
	}
	return f.Close()
}
