package front

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/upstream"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/fcgiclient"
	"github.com/tarehq/tare/internal/roundtrip"
)

// sending is a request on its way to a group. It has nothing of the exchange that it was made of but in live, so that it may go on
// when that has ended.
type sending struct {
	pass   *pass
	group  *group
	turn   upstream.Turn
	trail  trail
	log    *errorLog
	who    func() string  // whose request it is, for the log
	secure *client.Client // of HTTPS
	live   *exchange      // while it waits for the answer; nil if it may not
	request

	first  attempt        // memory: there is only one as a rule
	memory *client.Memory // of its exchange; nil if it has none of its own
	answer answerBody
}

// prepare makes what is sent for an exchange.
func (p *pass) prepare(x *exchange, to destination, ask *cache.OriginRequest) *sending {
	s := &x.first
	if ask != nil || s.pass != nil { // a cache may go on with it when the exchange has ended
		s = new(sending)
	} else if p.cgi == nil && !to.secure {
		if x.memory == nil {
			x.memory = new(client.Memory)
		}
		s.memory = x.memory
	}
	s.pass, s.group, s.log = p, to.group, x.errorLog()
	p.make(x, &s.request, to, ask)
	s.turn = to.group.peers.Turn(to.group.balance(x))
	if s.trail.kept = x.plan.traced; s.trail.kept {
		x.trail = append(x.trail, &s.trail)
	}
	if ask != nil || p.cgi != nil {
		line := x.client().Method + " " + x.r.RequestURI
		s.who = func() string { return line }
	}
	if to.secure {
		s.secure = p.tls.of(hostOnly(cmp.Or(p.tls.name.of(x), x.goal.host)))
	}
	return s
}

// failureKind is what kind of error there was.
type failureKind int

const (
	failedError failureKind = iota
	failedTimeout
	failedHeader // what came is no answer
	failedNone   // no server could be asked, or that cannot be asked of any
	badBody      // the client's body could not be read
	gone         // nobody waits any more
)

// fetchError is why an upstream has not answered.
type fetchError struct {
	kind   failureKind
	status int // that the client gets
	unsent bool
	err    error
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// Timeout and InvalidHeader tell the cache what kind it is.
func (e *fetchError) Timeout() bool { return e.kind == failedTimeout }

// InvalidHeader reports whether what came is no answer.
func (e *fetchError) InvalidHeader() bool { return e.kind == failedHeader }

// fetch asks servers of the group until one answers, as far as the rules have it.
func (s *sending) fetch(ctx context.Context) (*http.Response, error) {
	var last *fetchError
	var asked *attempt
	defer func() {
		if asked != nil { // who is told of the attempt has panicked
			asked.finish(false)
		}
	}()
	for tries := 1; ; tries++ {
		addr, err := s.turn.Next()
		if err != nil {
			if last == nil {
				last = &fetchError{failedNone, http.StatusBadGateway, true, err}
				s.trail.none(s.group.name)
				s.complain(levelError, s.group.name, last.err)
			}
			return nil, last
		}
		a := s.begin(ctx, addr)
		asked = a
		resp, err := s.ask(a)
		if asked = nil; err != nil {
			last = s.judge(ctx, a, err)
			a.failed(last)
			s.turn.Done(last.kind < failedNone)
			if last.kind <= failedNone {
				s.complain(levelError, addr, err)
			}
			if !s.another(ctx, last, tries) {
				return nil, last
			}
			continue
		}
		listed := slices.Contains(s.pass.next.Statuses, resp.StatusCode) && !s.pass.next.Off
		counts := listed && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound
		if listed && s.turn.More() && s.mayAgain(ctx, false, tries) {
			a.answered(resp.StatusCode)
			closing(resp.Body)
			a.end()
			s.turn.Done(counts)
			last = &fetchError{failedError, resp.StatusCode, false, errors.New(resp.Status)}
			continue
		}
		a.answered(resp.StatusCode)
		s.answer = answerBody{ReadCloser: resp.Body, a: a, failed: counts} // there is one answer
		resp.Body = &s.answer
		return resp, nil
	}
}

// another reports whether another server is asked after an error.
func (s *sending) another(ctx context.Context, last *fetchError, tries int) bool {
	n := &s.pass.next
	switch last.kind {
	case failedError:
		if !n.Error {
			return false
		}
	case failedTimeout:
		if !n.Timeout {
			return false
		}
	case failedHeader:
		if !n.InvalidHeader {
			return false
		}
	default:
		return false
	}
	return s.mayAgain(ctx, last.unsent, tries)
}

// mayAgain reports whether the request may be sent once more: nothing is done twice that must not be.
func (s *sending) mayAgain(ctx context.Context, unsent bool, tries int) bool {
	n := &s.pass.next
	if n.Off || ctx.Err() != nil || n.Tries > 0 && tries >= n.Tries || s.late() {
		return false
	}
	return (unsent || s.twice) && s.body.again()
}

// late reports whether the time for trying servers is over.
func (s *sending) late() bool {
	limit := s.pass.next.For
	return limit > 0 && time.Since(s.first.began) >= limit
}

// ask sends the request to a server and waits for the head of the answer.
func (s *sending) ask(a *attempt) (*http.Response, error) {
	body, err := s.body.open()
	if err != nil {
		return nil, err
	}
	body = a.sends(body)
	scheme := "http"
	if s.secure != nil {
		scheme = "https"
	}
	a.url = url.URL{Scheme: scheme, Host: hostOf(a.addr), Opaque: s.target}
	r := &a.request
	*r = *(&http.Request{ // neither of these two escapes
		Method: s.method, URL: &a.url, Host: s.host, Header: s.header,
		ProtoMajor: 1, ProtoMinor: 1, Body: body, Close: (s.header["Upgrade"] == nil || s.pass.cgi != nil) && (!s.keep || s.group.peers.Config().Keepalive == 0),
	}).WithContext(a)
	if body == http.NoBody {
		r.Body = nil
	} else {
		r.ContentLength = s.body.length
		if s.body.stream == nil {
			r.GetBody = func() (io.ReadCloser, error) {
				again, err := s.body.open()
				return a.sends(again), err
			}
		}
	}
	switch {
	case s.pass.cgi != nil:
		return s.askFastCGI(a, r)
	case s.secure != nil:
		return s.secure.RoundTrip(r)
	}
	if a == &s.first && s.memory != nil {
		return s.group.plain.http.RoundTripIn(s.memory, r)
	}
	return s.group.plain.http.RoundTrip(r)
}

// judge says what kind of error there was.
func (s *sending) judge(ctx context.Context, a *attempt, err error) *fetchError {
	f := &fetchError{kind: failedError, status: http.StatusBadGateway, err: err}
	var sent *client.Error
	var malformed *fcgiclient.MalformedError
	var broken *bodyError
	switch {
	case errors.Is(err, errSilent):
		f.kind = failedTimeout
	case ctx.Err() != nil:
		f.kind = gone
	case errors.As(err, &sent):
		f.unsent = sent.Kind == client.CannotConnect || sent.CanRetry && !a.repeatable() // else that may be why
		switch sent.Kind {
		case client.Malformed:
			f.kind = failedHeader
		case client.TimedOut:
			f.kind, f.unsent = failedTimeout, sent.During == "connecting to"
		case client.BadBody:
			f.kind = badBody
		}
		if timeout := (interface{ Timeout() bool })(nil); errors.As(sent.Err, &timeout) && timeout.Timeout() {
			f.kind = failedTimeout
		}
	case errors.As(err, &broken):
		f.kind = badBody
	case s.pass.cgi == nil, errors.Is(err, errGone): // it is about the request
		f.kind = failedNone
	case errors.As(err, &malformed), endedWithoutHead(err):
		f.kind = failedHeader
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		f.kind = failedTimeout
	}
	if a.unsent {
		f.unsent = true
	}
	if f.kind == failedTimeout {
		f.status = http.StatusGatewayTimeout
	}
	return f
}

// endedWithoutHead reports whether a FastCGI application ended a request in place of responding, which nginx counts as an invalid header.
func endedWithoutHead(err error) bool {
	var exit *fcgiclient.ExitError
	return errors.As(err, &exit) || errors.Is(err, fcgiclient.ErrOverloaded) || errors.Is(err, fcgiclient.ErrCannotMultiplex) || errors.Is(err, fcgiclient.ErrUnknownRole)
}

// complain says what went wrong with a server.
func (s *sending) complain(l level, addr string, err error) {
	scheme := "http://"
	switch {
	case s.pass.cgi != nil:
		scheme = "fastcgi://"
	case s.secure != nil:
		scheme = "https://"
	}
	if x := s.live; x != nil {
		x.upstream = scheme + addr + s.target
		x.errorf(l, "upstream: %v", err)
		return
	}
	if s.log.wants(l) && s.who != nil {
		s.log.say(l, "upstream %s%s: %v, request: %q", scheme, addr, err, bounded(s.who()))
	}
}

// hostOnly is a host without its port. What is no host stays as it is: a certificate is verified for it, and has no such name.
func hostOnly(host string) string {
	if ip, err := netip.ParseAddrPort(host); err == nil {
		return ip.Addr().String()
	}
	if name, ok := hostName(host); ok {
		return name
	}
	return host
}

// answerBody is the body of an answer: it ends the attempt.
type answerBody struct {
	io.ReadCloser
	a      *attempt
	failed bool // the answer counts as a failure of its server
	whole  bool // it has come at once
}

// Read waits for the server no longer than the Pass allows.
func (b *answerBody) Read(p []byte) (int, error) {
	b.a.waits()
	n, err := b.ReadCloser.Read(p)
	b.a.received(n)
	if err != nil {
		b.a.finish(b.failed)
		if err != io.EOF && errors.Is(b.a.Err(), errSilent) {
			err = errSilent
		}
	}
	return n, err
}

// wholeBytes is the length of a body up to which it is written at a stroke.
const wholeBytes = 16 << 10

// whole returns the body of an answer, if all of it has arrived, and is not long: such a one needs no reading.
func whole(resp *http.Response) *roundtrip.WholeBody {
	b, ok := resp.Body.(*answerBody)
	if !ok {
		return nil
	}
	w, ok := b.ReadCloser.(*roundtrip.WholeBody)
	if !ok || w.Len() > wholeBytes {
		return nil
	}
	b.whole = true
	b.a.received(w.Len())
	b.a.finish(b.failed)
	return w
}

// reusable reports whether nobody has the sending any more: one server was asked, its answer was whole, and neither the cache, nor a
// goroutine, nor whoever may have waited for its context, has ever known it. A client lets go of a request with no body when it has answered.
func (s *sending) reusable() bool {
	a := &s.first
	return s.pass != nil && s.answer.whole && s.answer.a == a && s.body == nil && s.trail.steps == nil && a.unseen
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.a.finish(b.failed)
	return err
}
