package sample

import (
	"fmt"
	"strings"

	loadreport "github.com/tarehq/tare/load/report"
)

// Condition holds the parameters of a trial besides the contender.
type Condition struct {
	Cores       int `json:"cores"` // of the servers; 0 is all, shared with the generator
	Connections int `json:"connections"`

	// Rate is the number of requests per second that every contender receives. 0 is saturation: a
	// connection sends the next request after the last response.
	Rate float64 `json:"rate,omitempty"`

	Procs int `json:"procs,omitempty"` // GOMAXPROCS or processes of the application; 0 is as many as cores

	// Scenario is the form of the load; the zero value is the experiment's request.
	Scenario Scenario `json:"scenario,omitzero"`
}

// Saturated reports whether a connection sends the next request after the last response, without a
// schedule.
func (c Condition) Saturated() bool { return c.Rate == 0 }

// Text describes the condition, as it stands after "with".
func (c Condition) Text() string {
	if c.Connections == 0 { // of programs that measure themselves
		return fmt.Sprintf("%s, GOMAXPROCS %d", c.Scenario.Name, c.Procs)
	}
	words := []string{loadreport.Plural(c.Connections, "connection")}
	if s := c.Scenario; s.Name != "" {
		words[0] += " (" + s.Name + ")"
	}
	if c.Procs > 0 {
		words = append(words, fmt.Sprintf("GOMAXPROCS %d", c.Procs))
	}
	switch c.Cores {
	case 0:
		words = append(words, "all cores shared")
	case 1:
		words = append(words, "the servers on one core")
	default:
		words = append(words, fmt.Sprintf("the servers on %d cores", c.Cores))
	}
	if c.Saturated() {
		return List(words)
	}
	return fmt.Sprintf("%s, at %s requests/s", List(words), loadreport.Count(c.Rate))
}

// List joins words as in a sentence.
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
