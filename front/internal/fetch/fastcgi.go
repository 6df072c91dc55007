package fetch

import (
	"fmt"
	"net/http"

	"github.com/tarehq/tare/internal/client"
)

// maxStderr bounds the text of one report about an application's STDERR.
const maxStderr = 2 << 10

// roundTripFastCGI sends the request to an application and waits for the head of the response.
func (r *Request) roundTripFastCGI(a *attempt, h *http.Request) (*http.Response, error) {
	c, m := r.Group.Transport.fcgi, r.memoryOf(a)
	if m == nil {
		return c.RoundTripFastCGI(nil, h, r.optionsOf(a))
	}
	if r.fastcgiOptions == nil {
		r.fastcgiOptions = r.optionsOf(a)
	}
	r.fastcgiOptions.Addr, r.fastcgiOptions.StreamBody = a.addr, r.Spec.Body.IsStreamed()
	return c.RoundTripFastCGI(m, h, r.fastcgiOptions)
}

// optionsOf returns the settings of the client for an attempt.
func (r *Request) optionsOf(a *attempt) *client.FastCGIOptions {
	return &client.FastCGIOptions{Addr: a.addr, Describe: r.addParams, StreamBody: r.Spec.Body.IsStreamed(),
		Stderr: func(text []byte) { r.reportStderr(a.addr, text) }}
}

func (r *Request) addParams(p *client.Params, _ int64) error {
	r.Caller.AddParams(p)
	return nil
}

// reportStderr reports what an application writes to STDERR.
func (r *Request) reportStderr(addr string, text []byte) {
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		r.reportFailure(addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
	}
}
