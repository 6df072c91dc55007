package front

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
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
	e := &core.Explanation{Config: &c}
	h, err := New(c, append([]Option{LogErrors(log.New(io.Discard, "", 0)), OpenLogs(discardLog)}, append(opts,
		CachesInMemory(), func(o *core.Options) { o.Explain = e })...)...)
	if err != nil {
		return nil, err
	}
	w := &explainWriter{header: make(http.Header)}
	rejected := handshake(e, h, r)
	if !rejected {
		h.ServeHTTP(w, r)
	}
	if err := h.Close(); err != nil {
		return nil, err
	}
	if !rejected && (!e.HasContent || w.status >= http.StatusMultipleChoices) {
		addResponse(e, w)
	}
	all := make([]Finding, len(e.Findings))
	for i, f := range e.Findings {
		all[i] = Finding{f.Phase, f.Pos, f.Text}
	}
	return all, nil
}

func discardLog(string) (io.WriteCloser, error) { return accesslog.NopCloser{Writer: io.Discard}, nil }

// explainWriter keeps the head of a response.
type explainWriter struct {
	header http.Header
	status int
}

func (w *explainWriter) Header() http.Header { return w.header }

func (w *explainWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *explainWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

func addResponse(e *core.Explanation, w *explainWriter) {
	text := fmt.Sprintf("%d %s", w.status, http.StatusText(w.status))
	if w.status == 0 {
		text = "the connection is closed without a response"
	}
	if to := w.header.Get("Location"); to != "" {
		text += ", Location: " + to
	}
	e.Add(nil, "response", "", "%s", strings.TrimSpace(text))
}

// handshake adds a finding about the TLS handshake of a request, and reports whether it is
// rejected.
func handshake(e *core.Explanation, h *Handler, r *http.Request) (rejected bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if r.TLS == nil || local == nil {
		return false
	}
	host, defaultHost := h.HostAt(local, r.TLS.ServerName)
	if host == nil {
		return false
	}
	if host.RejectHandshake {
		e.Add(nil, "tls", host.Pos, "rejects the handshake")
		return true
	}
	for _, at := range []*conf.Host{host, defaultHost} {
		if names := certificateNames(at); names != "" {
			e.Add(nil, "tls", at.Pos, "%s", names)
			return false
		}
	}
	return false
}

func certificateNames(host *conf.Host) string {
	if host == nil {
		return ""
	}
	for _, l := range host.Listen {
		var all []string
		if l.Issued != nil {
			all = append(all, "one of the issuer "+l.Issued.Issuer)
		}
		for _, pair := range l.Certs {
			all = append(all, pair.Cert)
		}
		if l.TLS && len(all) > 0 {
			return "certificate " + strings.Join(all, ", or ")
		}
	}
	return ""
}
