package load

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// FastCGI holds the measurements that only FastCGI has.
type FastCGI struct {
	// Resent counts requests retried on another connection because the application had closed
	// theirs, after an earlier response, without responding. FastCGI cannot announce a close, so
	// this is no error. If an application closes after every response, the worker soon sends only
	// one request per connection.
	Resent uint64 `json:"resent"`
	// Exits counts complete responses with an application status other than 0, a CGI program's exit
	// code. Web servers ignore it.
	Exits uint64 `json:"exits"`
	// StderrBytes counts the bytes that applications wrote to STDERR.
	StderrBytes uint64 `json:"stderrBytes"`

	// Stderr is the start of the first STDERR output of a response, including failed responses and
	// those before measuring.
	Stderr string `json:"stderr,omitempty"`
}

func (f *FastCGI) merge(o *FastCGI) {
	f.Resent += o.Resent
	f.Exits += o.Exits
	f.StderrBytes += o.StderrBytes
	if f.Stderr == "" {
		f.Stderr = o.Stderr
	}
}

const maxStderr = 512

func (fcgiProtocol) newReader(s *readerShared) reader {
	s.tally.FastCGI = cmp.Or(s.tally.FastCGI, new(FastCGI))
	return &fcgiReader{shared: s}
}

type fcgiReader struct {
	shared  *readerShared
	state   fcgiState
	partial []byte // a record received in pieces that is usable only when complete
	head    []byte // a response's head received in pieces
	stderr  []byte // its start, while the tally has none
}

// fcgiState is the fcgiReader's state within one response. Its transitions are:
//
//	head → body          the head is complete
//	body → stdoutEnded   an empty STDOUT record
//	any → endReceived    END_REQUEST; then its padding follows
type fcgiState struct {
	records     fcgi.Reader
	stdoutEnded bool  // the empty STDOUT record has arrived
	endReceived bool  // END_REQUEST has arrived
	padding     int   // bytes of its padding to skip
	length      int64 // Content-Length of the body; -1 without one
}

func (r *fcgiReader) untilClose() bool { return false }

func (r *fcgiReader) reset() {
	if len(r.stderr) > 0 && r.shared.tally.FastCGI.Stderr == "" {
		r.shared.tally.FastCGI.Stderr = string(r.stderr)
	}
	r.state = fcgiState{}
	r.partial, r.head, r.stderr = r.partial[:0], r.head[:0], r.stderr[:0]
}

func (r *fcgiReader) consume(in []byte, a *response) (n int, err error) {
	a.stage = max(a.stage, inHead)
	for n < len(in) && !r.state.endReceived {
		p, k, err := r.next(in[n:])
		n += k
		if err == nil && p.Type != 0 {
			err = r.record(p, a)
		}
		if err != nil {
			return n, err
		}
	}
	if !r.state.endReceived {
		return n, nil
	}
	k := min(r.state.padding, len(in)-n)
	if r.state.padding -= k; r.state.padding == 0 {
		a.stage = complete
		r.reset()
	}
	return n + k, nil
}

// next returns the next piece of a record, or none if the input is incomplete. It keeps incomplete
// headers and messages, so all input is consumed.
func (r *fcgiReader) next(in []byte) (p fcgi.Piece, n int, err error) {
	if len(r.partial) == 0 {
		p, n, err = r.state.records.Next(in)
		if p.Type == 0 && err == nil {
			r.partial = append(r.partial, in[n:]...)
			n = len(in)
		}
		return p, n, err
	}
	// Append byte by byte, so that partial holds nothing of the next record.
	for n < len(in) && len(r.partial) > 0 && err == nil {
		var k int
		r.partial = append(r.partial, in[n])
		n++
		if p, k, err = r.state.records.Next(r.partial); k > 0 {
			r.partial = r.partial[:0] // complete
		}
	}
	return p, n, err
}

var (
	errNoHead = errors.New("the application ended the request before a complete response head")
	errStdout = errors.New("STDOUT continues after its end")
)

func (r *fcgiReader) record(p fcgi.Piece, a *response) error {
	switch {
	case p.ID != requestID:
		return fmt.Errorf("record for request ID %d, want %d", p.ID, requestID)
	case p.Type == fcgi.Stderr:
		r.recordStderr(p.Content)
		return nil
	case p.Type == fcgi.EndRequest:
		return r.endRequest(p, a)
	case p.Type != fcgi.Stdout:
		return fmt.Errorf("record of unexpected type %d", p.Type)
	case r.state.stdoutEnded:
		return errStdout
	case p.Ends():
		r.state.stdoutEnded = true
		return nil
	case a.stage == inBody:
		a.data(p.Content)
		return nil
	}
	return r.parseHead(p.Content, a)
}

// parseHead parses a head, or keeps an incomplete one, as httpReader.head does.
func (r *fcgiReader) parseHead(content []byte, a *response) error {
	head, kept := content, len(r.head)
	if kept > 0 {
		r.head = append(r.head, content...)
		head = r.head
	}
	response := &r.shared.cgi
	response.Reset()
	complete, err := response.Parse(head, headLimits())
	if err != nil {
		return err
	}
	if !complete {
		if kept == 0 {
			r.head = append(r.head, content...)
		}
		return nil
	}
	if r.shared.tally.Head == "" {
		r.shared.tally.Head = string(head[:response.Size])
	}
	if a.checked != nil {
		a.checked.head(head, &response.Head)
	}
	a.begin(response.Status, false)
	r.state.length = -1
	if n, ok := response.Length(); ok && !a.isHead && http1.BodyAllowed(response.Status) {
		r.state.length = n
	} else {
		a.events = newEventStream(r.shared.tally, head, response.Fields)
	}
	a.data(head[response.Size:])
	return nil
}

// recordStderr counts STDERR output, and keeps the start of the first.
func (r *fcgiReader) recordStderr(text []byte) {
	f := r.shared.tally.FastCGI
	if r.shared.tally.counting {
		f.StderrBytes += uint64(len(text))
	}
	if f.Stderr == "" {
		r.stderr = append(r.stderr, text[:min(len(text), maxStderr-len(r.stderr))]...)
	}
}

func (r *fcgiReader) endRequest(p fcgi.Piece, a *response) error {
	end, err := fcgi.ParseEnd(p.Content)
	switch {
	case err != nil:
		return err
	case end.Status != fcgi.Complete:
		return fmt.Errorf("the application refused the request: %v (protocol status %d)", end.Status, end.Status)
	case a.stage != inBody:
		return errNoHead
	case r.state.length >= 0 && a.body != r.state.length:
		return fmt.Errorf("body of %d bytes, but Content-Length is %d", a.body, r.state.length)
	}
	if end.App != 0 && r.shared.tally.counting {
		r.shared.tally.FastCGI.Exits++
	}
	r.state.endReceived, r.state.padding = true, int(p.Padding)
	return nil
}
