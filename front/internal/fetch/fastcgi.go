package fetch

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/tarehq/tare/internal/client"
)

// maxStderr bounds the text of one report about an application's STDERR.
const maxStderr = 2 << 10

// roundTripFastCGI sends the request to an application and waits for the head of the response.
func (r *Request) roundTripFastCGI(a *attempt, h *http.Request) (*http.Response, error) {
	m, options := r.memoryOf(a), r.fastcgiOptions
	switch {
	case m == nil:
		options = r.optionsOf(a)
	case options == nil:
		options = r.optionsOf(a)
		r.fastcgiOptions = options
	}
	options.Addr, options.StreamBody = a.addr, r.Spec.Body.IsStreamed()
	resp, err := r.transport().fcgi.RoundTripFastCGI(m, h, options)
	if err != nil || a.stderr == nil || a.stderr.caught == "" {
		return resp, err
	}
	_ = resp.Body.Close() // there is an error already
	return nil, &client.Error{Side: client.Server, Kind: client.Malformed, During: "reading the response of",
		Addr: a.addr, Err: fmt.Errorf("it wrote %q to STDERR", a.stderr.caught)}
}

// optionsOf returns the settings of the client for an attempt.
func (r *Request) optionsOf(a *attempt) *client.FastCGIOptions {
	return &client.FastCGIOptions{Addr: a.addr, Describe: r.addParams, StreamBody: r.Spec.Body.IsStreamed(),
		Stderr: func(text []byte) { r.reportStderr(a, text) }}
}

func (r *Request) addParams(p *client.Params, _ int64) error {
	r.Caller.AddParams(p)
	return nil
}

// reportStderr reports what an application writes to STDERR.
func (r *Request) reportStderr(a *attempt, text []byte) {
	if texts := r.Settings.CatchStderr; len(texts) > 0 {
		if a.stderr == nil {
			a.stderr = new(stderrSearch)
		}
		a.stderr.add(text, texts)
	}
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		r.reportFailure(a.addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
	}
}

// stderrSearch looks for the texts of Settings.CatchStderr in what an application writes.
type stderrSearch struct {
	caught string // what was found; "" without
	end    []byte // of the earlier pieces: a text may begin there
}

// add looks for texts in a piece.
func (s *stderrSearch) add(piece []byte, texts []string) {
	all, longest := append(s.end, piece...), 1
	for _, text := range texts {
		longest = max(longest, len(text))
		if bytes.Contains(all, []byte(text)) {
			s.caught = text
		}
	}
	s.end = bytes.Clone(all[max(len(all)-longest+1, 0):])
}
