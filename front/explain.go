package front

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/internal/uri"
)

// A Finding is what a phase would do with a request.
type Finding struct {
	// Phase is "tls", "server", "rewrite", "location", "limits", "access", "try_files", "mirror",
	// "content", "upstream" or "response".
	Phase string
	Pos   string // the position in the configuration; empty if it is unknown
	Text  string
}

// Explain returns what a Handler of a Config would do with a request, in the order of its phases.
// It connects to no upstream, starts no bound handler, reads no file and writes no log. It does
// look for files where serving would. Responses of upstreams count as successful, also to
// auth_request. The context of r must have the address of the socket (http.LocalAddrContextKey).
// The error is that of New.
func Explain(c conf.Config, r *http.Request, opts ...Option) ([]Finding, error) {
	e := &explanation{config: &c}
	h, err := New(c, append([]Option{LogErrors(log.New(io.Discard, "", 0)), OpenLogs(discardLog)}, append(opts,
		CachesInMemory(), func(o *options) { o.explain = e })...)...)
	if err != nil {
		return nil, err
	}
	w := &explainWriter{header: make(http.Header)}
	rejected := e.handshake(h, r)
	if !rejected {
		h.ServeHTTP(w, r)
	}
	if err := h.Close(); err != nil {
		return nil, err
	}
	if !rejected && (!e.hasContent || w.status >= http.StatusMultipleChoices) {
		e.response(w)
	}
	return e.findings, nil
}

func discardLog(string) (io.WriteCloser, error) { return discardFile{io.Discard}, nil }

type discardFile struct{ io.Writer }

// Close implements io.Closer.
func (discardFile) Close() error { return nil }

// explainWriter keeps the head of a response.
type explainWriter struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (w *explainWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *explainWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

// Write implements http.ResponseWriter.
func (w *explainWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

// explanation collects the findings about one request. The compiler adds its actions to those of
// the plan, so that serving plans do not pay for it.
type explanation struct {
	config     *conf.Config
	findings   []Finding
	hasHost    bool
	hasContent bool // content would have responded
}

// add adds a finding.
func (e *explanation) add(x *exchange, phase, pos, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if x != nil && x.parent != nil {
		phase = "subrequest: " + phase
	}
	e.findings = append(e.findings, Finding{phase, places.Line(pos), text})
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

// response adds the finding about the response.
func (e *explanation) response(w *explainWriter) {
	text := fmt.Sprintf("%d %s", w.status, http.StatusText(w.status))
	if w.status == 0 {
		text = "the connection is closed without a response"
	}
	if to := w.header.Get("Location"); to != "" {
		text += ", Location: " + to
	}
	e.add(nil, "response", "", "%s", strings.TrimSpace(text))
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
