package front

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/internal/uri"
)

// explanation collects the findings about one request. The compiler adds its actions to those of
// the plan, so that serving plans do not pay for it.
type explanation struct {
	config     *conf.Config
	findings   []finding
	hasHost    bool
	hasContent bool // content would have responded
}

// finding is a Finding.
type finding struct{ phase, pos, text string }

// add adds a finding.
func (e *explanation) add(x *exchange, phase, pos, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if x != nil && x.parent != nil {
		phase = "subrequest: " + phase
	}
	e.findings = append(e.findings, finding{phase, places.Line(pos), text})
}

// explainEnd adds a finding if a phase has ended the request.
func (x *exchange) explainEnd(phase string, out outcome) outcome {
	if e := x.plan.options.explain; e != nil {
		switch status := x.errorStatus; {
		case out == relocate && status != 0:
			e.add(x, phase, "", "rejects the request with %d; the error page is %s", status,
				uri.WithQuery(x.path, x.args))
		case out == relocate:
			e.add(x, phase, "", "continues with %s", uri.WithQuery(x.path, x.args))
		case status != 0:
			e.add(x, phase, "", "rejects the request with %d", status)
		}
	}
	return out
}

// respond adds a finding about a content without details, and responds.
func (e *explanation) respond(x *exchange, text string) outcome {
	e.add(x, "content", x.loc.pos, "%s", text)
	return e.end(x)
}

// end responds where a content would have.
func (e *explanation) end(x *exchange) outcome {
	if x.parent == nil {
		e.hasContent = true
	}
	x.w.WriteHeader(http.StatusOK)
	return responded
}

// explainHost adds a finding to the steps of a host.
func (c *compiler) explainHost(h *host) {
	e := c.options.explain
	if e == nil {
		return
	}
	h.steps = append([]action{func(x *exchange) (outcome, bool) {
		if e.hasHost {
			return proceed, false // after an internal redirect
		}
		e.hasHost = true
		names := strings.Join(h.from.Names, " ")
		text := fmt.Sprintf("server_name %s", names)
		if names == "" {
			text = "without a server_name"
		}
		if x.plan.hosts.groupOf(x.r).defaultHost == h {
			text += " (default server of the address)"
		}
		e.add(x, "server", h.pos, "%s", text)
		return proceed, false
	}}, h.steps...)
}

// explainLocation adds a finding to the steps of a location.
func (c *compiler) explainLocation(loc *location, from *conf.Location) {
	e := c.options.explain
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
	loc.steps = append([]action{func(x *exchange) (outcome, bool) {
		e.add(x, "location", from.Pos, "%s", text)
		return proceed, false
	}}, loc.steps...)
}

// explainStep adds a finding to a step.
func (c *compiler) explainStep(s conf.Step, do action) (action, error) {
	e := c.options.explain
	if e == nil {
		return do, nil
	}
	switch s := s.(type) {
	case conf.If: // its condition adds a finding
		return do, nil
	case conf.Set:
		value, err := c.text(s.Value)
		return func(x *exchange) (outcome, bool) {
			e.add(x, "rewrite", s.Pos, "set $%s: %q", s.Name, value.eval(x))
			return do(x)
		}, err
	case conf.Rewrite:
		return func(x *exchange) (outcome, bool) {
			before := uri.WithQuery(x.path, x.args)
			out, ends := do(x)
			text := "is not changed"
			if now := uri.WithQuery(x.path, x.args); now != before {
				text = "becomes " + now
			} else if out == responded {
				text = "is redirected"
			}
			e.add(x, "rewrite", s.Pos, "rewrite %s %s: %s %s", s.Pattern, s.To, before, text)
			return out, ends
		}, nil
	case conf.Return:
		return func(x *exchange) (outcome, bool) {
			e.add(x, "rewrite", s.Pos, "%s", strings.TrimSpace(fmt.Sprintf("return %d %s", s.Status, s.Text)))
			return do(x)
		}, nil
	}
	return func(x *exchange) (outcome, bool) {
		e.add(x, "rewrite", "", "break")
		return do(x)
	}, nil
}

// explainCondition adds a finding to the condition of an If.
func (c *compiler) explainCondition(s conf.If, holds func(*exchange) bool) func(*exchange) bool {
	e := c.options.explain
	if e == nil {
		return holds
	}
	condition := strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Left, s.Op, s.Right))
	if strings.HasPrefix(strings.TrimPrefix(s.Op, "!"), "-") {
		condition = fmt.Sprintf("%s %s", s.Op, s.Left)
	}
	return func(x *exchange) bool {
		result := holds(x)
		e.add(x, "rewrite", s.Pos, "if (%s): %v", condition, result)
		return result
	}
}

// explainCycle adds a finding about too many internal redirects.
func (x *exchange) explainCycle() {
	if e := x.plan.options.explain; e != nil {
		e.add(x, "rewrite", "", "more than %d internal redirects", maxRedirects)
	}
}
