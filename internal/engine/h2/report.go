package h2

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// maxReports is how many rejected requests of a session are being reported. More are not reported:
// the hook hangs, and the client must not collect goroutines.
const maxReports = 64

// report calls the server's hook with a request that no handler sees, as far as it was decoded. The
// hook may block in spite of its doc, so it has a goroutine: the turn must not wait for a log.
func (s *Session) report(b *wire.HeaderBlock, status int, sent int64) {
	hook := s.config.Exchanges.OnRefused
	if hook == nil {
		return
	}
	if s.reports.Add(1) > maxReports {
		s.reports.Add(-1)
		return
	}
	r, line := s.describe(b)
	go func() {
		defer s.reports.Add(-1)
		s.config.Exchanges.CallRefused(exchange.Refusal{Request: r, Line: line, Status: status, Sent: sent})
	}()
}

// describe returns what is known of a request, and its request line as HTTP/1 has it. The line is
// empty if the method or the path is missing.
func (s *Session) describe(b *wire.HeaderBlock) (r *http.Request, line string) {
	text := http1.TextOf(b.Text)
	r = new(*s.template)
	r.Method, r.RequestURI, r.Host = text.Of(b.Method), text.Of(b.Path), text.Of(b.Host())
	r.Header, r.URL, r.Body = b.Header(textproto.CanonicalMIMEHeaderKey), new(url.URL), http.NoBody
	delete(r.Header, "Host")
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		r.URL = u
	}
	if r.Method != "" && r.RequestURI != "" {
		line = r.Method + " " + r.RequestURI + " " + r.Proto
		line = line[:min(len(line), exchange.MaxRefusedLine)]
	}
	conn := s.carrier.Connection()
	ctx := context.WithValue(conn.Context(), http.LocalAddrContextKey, conn.LocalAddr())
	return r.WithContext(context.WithoutCancel(ctx)), line
}
