package trial

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
)

// collectorEnv returns the variable that makes a Go program print a line after each run of its
// collector. Other programs ignore it.
func collectorEnv() string {
	const trace = "gctrace=1"
	if now := os.Getenv("GODEBUG"); now != "" {
		return "GODEBUG=" + now + "," + trace
	}
	return "GODEBUG=" + trace
}

// collector computes the rates from the application's output, whose end belongs to the measured
// time. It returns nil if the collector ran less than fewestCycles times.
func collector(running *contender.Running, measured time.Duration) (*sample.Collector, error) {
	printed, err := running.Output(contender.RoleApplication)
	if err != nil {
		return nil, err
	}
	return readCollector(string(printed), measured.Seconds()), nil
}

// cycle is one run of the collector.
type cycle struct {
	at         float64 // seconds since the program started
	cpu        float64 // seconds
	start, end float64 // the heap in MB when it started, and the live heap when it ended
}

// fewestCycles is the number of runs from which rates can be computed.
const fewestCycles = 3

func readCollector(text string, seconds float64) *sample.Collector {
	// The format is documented in package runtime: gc # @#s #%: #+#+# ms clock, #+#/#/#+# ms cpu,
	// #->#-># MB, ...
	line := regexp.MustCompile(`^gc \d+ @([\d.]+)s \d+%: \S+ ms clock, ([\d.+/]+) ms cpu, (\d+)->\d+->(\d+) MB`)
	var cycles []cycle
	for l := range strings.Lines(text) {
		if m := line.FindStringSubmatch(l); m != nil {
			cycles = append(cycles, cycle{number(m[1]), collectorCPU(m[2]), number(m[3]), number(m[4])})
		}
	}
	for len(cycles) > 0 && cycles[0].at < cycles[len(cycles)-1].at-seconds {
		cycles = cycles[1:]
	}
	if len(cycles) < fewestCycles {
		return nil
	}
	var made, cpu float64
	for i, c := range cycles[1:] {
		made += max(0, c.start-cycles[i].end)
		cpu += c.cpu
	}
	span := cycles[len(cycles)-1].at - cycles[0].at
	if span <= 0 {
		return nil
	}
	return &sample.Collector{BytesPerSecond: made * (1 << 20) / span, CPUPerSecond: cpu / span}
}

// collectorCPU returns the phases' CPU time in seconds. It leaves out the idle phase, which uses
// processors that nothing else uses.
func collectorCPU(phases string) (total float64) {
	const idle = 3 // sweep termination + assist / background / idle + mark termination
	for i, ms := range strings.FieldsFunc(phases, func(r rune) bool { return r == '+' || r == '/' }) {
		if i != idle {
			total += number(ms) / 1e3
		}
	}
	return total
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0 // the expression matches hardly anything else
	}
	return v
}
