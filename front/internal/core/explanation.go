package core

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/internal/uri"
)

// Explanation collects the findings about one request. The compiler adds its actions to those of
// the plan, so that serving plans do not pay for it.
type Explanation struct {
	Config     *conf.Config
	Findings   []finding
	HasContent bool // content would have responded
}

type finding struct{ Phase, Pos, Text string }

// Add adds a finding.
func (e *Explanation) Add(x *Exchange, phase, pos, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if x != nil && x.Parent != nil {
		phase = "subrequest: " + phase
	}
	e.Findings = append(e.Findings, finding{phase, places.Line(pos), text})
}

// explainEnd adds a finding if a phase has ended the request.
func (x *Exchange) explainEnd(phase string, out Outcome) Outcome {
	if e := x.Plan.Options.Explain; e != nil {
		switch status := x.ErrorStatus; {
		case out == Relocate && status != 0:
			e.Add(x, phase, "", "rejects the request with %d; the error page is %s", status,
				uri.WithQuery(x.Path, x.Args))
		case out == Relocate:
			e.Add(x, phase, "", "continues with %s", uri.WithQuery(x.Path, x.Args))
		case status != 0:
			e.Add(x, phase, "", "rejects the request with %d", status)
		}
	}
	return out
}

// Respond adds a finding about a content without details, and responds.
func (e *Explanation) Respond(x *Exchange, text string) Outcome {
	e.Add(x, "content", x.Loc.Pos, "%s", text)
	return e.End(x)
}

// End responds where a content would have.
func (e *Explanation) End(x *Exchange) Outcome {
	if x.Parent == nil {
		e.HasContent = true
	}
	x.Response.WriteHeader(http.StatusOK)
	return Responded
}

// host adds a finding about the host of a request.
func (e *Explanation) host(x *Exchange) {
	if x.Redirects > 0 || x.Parent != nil || x.Host.from == nil {
		return // the host is the same, or none
	}
	names := strings.Join(x.Host.from.Names, " ")
	text := fmt.Sprintf("server_name %s", names)
	if names == "" {
		text = "without a server_name"
	}
	if x.Plan.Hosts.GroupOf(x.Request).defaultHost == x.Host {
		text += " (default server of the address)"
	}
	e.Add(x, "server", x.Host.pos, "%s", text)
}

// explainLocation adds a finding to the steps of a location.
func (c *Compiler) explainLocation(loc *Location, from *conf.Location) {
	e := c.Options.Explain
	if e == nil {
		return
	}
	text := "location " + from.Path
	if from.Match != "" && from.Match != "@" {
		text = "location " + from.Match + " " + from.Path
	}
	if from.Path == "" {
		text = "none matches: the settings of the server apply"
	}
	loc.steps = append([]action{func(x *Exchange) (Outcome, bool) {
		e.Add(x, "location", from.Pos, "%s", text)
		return Proceed, false
	}}, loc.steps...)
}

// explainStep adds a finding to a step.
func (c *Compiler) explainStep(s conf.Step, do action) action {
	e := c.Options.Explain
	if e == nil {
		return do
	}
	text := func(*Exchange) string { return "break" }
	switch s := s.(type) {
	case conf.If: // its condition adds a finding
		return do
	case conf.Set:
		value := c.Text("set", s.Value)
		text = func(x *Exchange) string { return fmt.Sprintf("set $%s: %q", s.Name, value.Eval(x)) }
	case conf.Return:
		text = func(*Exchange) string { return strings.TrimSpace(fmt.Sprintf("return %d %s", s.Status, s.Text)) }
	case conf.Rewrite:
		return func(x *Exchange) (Outcome, bool) {
			before := uri.WithQuery(x.Path, x.Args)
			out, ends := do(x)
			text := "is not changed"
			if now := uri.WithQuery(x.Path, x.Args); now != before {
				text = "becomes " + now
			} else if out == Responded {
				text = "is redirected"
			}
			e.Add(x, "rewrite", s.Pos, "rewrite %s %s: %s %s", s.Pattern, s.To, before, text)
			return out, ends
		}
	}
	return func(x *Exchange) (Outcome, bool) {
		e.Add(x, "rewrite", s.Position(), "%s", text(x))
		return do(x)
	}
}

// explainCondition adds a finding to the condition of an If.
func (c *Compiler) explainCondition(s conf.If, holds func(*Exchange) bool) func(*Exchange) bool {
	e := c.Options.Explain
	if e == nil {
		return holds
	}
	condition := strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Left, s.Op, s.Right))
	if strings.HasPrefix(strings.TrimPrefix(s.Op, "!"), "-") {
		condition = fmt.Sprintf("%s %s", s.Op, s.Left)
	}
	return func(x *Exchange) bool {
		result := holds(x)
		e.Add(x, "rewrite", s.Pos, "if (%s): %v", condition, result)
		return result
	}
}
