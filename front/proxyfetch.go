package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/client"
)

// upstreamRequest is a request to a group of servers. Only exchange refers to the exchange that it
// was made from, so that a cache may continue the request after the exchange has ended.
type upstreamRequest struct {
	proxy       *proxy
	group       *group
	turn        upstream.Turn
	attempts    attempts
	errorLog    *errorLog
	requestLine [2]string      // method and target, for the error log where exchange is nil
	tlsClient   *client.Client // for HTTPS
	exchange    *exchange      // set while the handler waits for the response, else nil
	spec        requestSpec

	firstAttempt attempt        // avoids an allocation; most requests have one attempt
	clientMemory *client.Memory // of firstAttempt; nil if it has none of its own
	responseBody responseBody

	// of firstAttempt; nil before its first use. It refers to the upstreamRequest, and is reused
	// with it.
	fastcgiOptions *client.FastCGIOptions
}

// newRequest makes the upstream request of an exchange. opts is nil without a cache.
func (p *proxy) newRequest(x *exchange, target destination, opts *cache.OriginRequest) *upstreamRequest {
	s := &x.proxy.firstRequest
	if opts != nil || s.proxy != nil { // a cache may use it after the exchange has ended
		s = new(upstreamRequest)
	} else {
		if x.proxy.clientMemory == nil {
			x.proxy.clientMemory = new(client.Memory)
		}
		s.clientMemory = x.proxy.clientMemory
	}
	s.proxy, s.group, s.errorLog = p, target.group, x.errorLog()
	p.buildRequest(x, &s.spec, target, opts)
	s.turn = target.group.peers.Turn(target.group.balanceKey(x))
	if target.group.sticky != nil {
		s.turn.Prefer(target.group.sticky.route(x))
	}
	if s.attempts.isKept = x.plan.needs&needsAttempts != 0; s.attempts.isKept {
		x.proxy.attempts = append(x.proxy.attempts, &s.attempts)
	}
	if opts != nil || p.fastcgi != nil {
		s.requestLine = [2]string{x.clientRequest().Method, x.r.RequestURI}
	}
	if target.usesTLS {
		s.tlsClient = p.tls.client(hostOnly(cmp.Or(p.tls.verifyName.eval(x), x.proxy.target.host)))
	}
	return s
}

// failureKind is the kind of a fetchError.
type failureKind int

const (
	failureError failureKind = iota
	failureTimeout
	failureHeader     // the received bytes are not a response
	failureNoServer   // no server is available, or none can serve the request
	failureClientBody // the client's body could not be read
	failureClientGone // the client has gone away
)

// fetchError is why an upstream request has no response.
type fetchError struct {
	kind    failureKind
	status  int // for the client
	notSent bool
	err     error
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// Timeout and InvalidHeader let package cache tell kinds of errors apart.
func (e *fetchError) Timeout() bool { return e.kind == failureTimeout }

// InvalidHeader reports whether the received bytes were not a response.
func (e *fetchError) InvalidHeader() bool { return e.kind == failureHeader }

// fetch tries servers of the group until one responds, as far as proxy_next_upstream allows.
func (s *upstreamRequest) fetch(ctx context.Context) (*http.Response, error) {
	var last *fetchError
	var current *attempt
	defer func() {
		if current != nil { // a callback of the attempt has panicked
			current.finish(false)
		}
	}()
	for tries := 1; ; tries++ {
		addr, err := s.turn.Next()
		if err != nil && (last == nil || last.kind <= failureTimeout) && s.turn.Refresh(ctx) {
			addr, err = s.turn.Next()
		}
		if err != nil {
			if last == nil {
				last = &fetchError{failureNoServer, http.StatusBadGateway, true, err}
				s.attempts.addNoServer(s.group.name)
				s.logFailure(levelError, s.group.name, last.err)
			}
			return nil, last
		}
		a := s.startAttempt(ctx, addr)
		current = a
		resp, err := s.roundTrip(a)
		if current = nil; err != nil {
			last = s.classify(ctx, a, err)
			a.fail(last)
			s.turn.Done(last.kind < failureNoServer)
			if last.kind <= failureNoServer {
				s.logFailure(levelError, addr, err)
			}
			if !s.shouldRetry(ctx, last, tries) {
				return nil, last
			}
			continue
		}
		isRetryStatus := slices.Contains(s.proxy.next.Statuses, resp.StatusCode) && !s.proxy.next.Off
		countsAsFailure := isRetryStatus && resp.StatusCode != http.StatusForbidden &&
			resp.StatusCode != http.StatusNotFound
		if isRetryStatus && s.turn.More() && s.canRetry(ctx, false, tries) {
			a.headReceived(resp.StatusCode)
			closeQuietly(resp.Body)
			a.end()
			s.turn.Done(countsAsFailure)
			last = &fetchError{failureError, resp.StatusCode, false, fmt.Errorf("status %d", resp.StatusCode)}
			continue
		}
		a.headReceived(resp.StatusCode)
		s.turn.HeadReceived()
		// there is one response
		s.responseBody = responseBody{ReadCloser: resp.Body, attempt: a, countsAsFailure: countsAsFailure}
		resp.Body = &s.responseBody
		return resp, nil
	}
}

// shouldRetry reports whether another server is tried after an error.
func (s *upstreamRequest) shouldRetry(ctx context.Context, last *fetchError, tries int) bool {
	n := &s.proxy.next
	switch last.kind {
	case failureError:
		if !n.Error {
			return false
		}
	case failureTimeout:
		if !n.Timeout {
			return false
		}
	case failureHeader:
		if !n.InvalidHeader {
			return false
		}
	default:
		return false
	}
	return s.canRetry(ctx, last.notSent, tries)
}

// canRetry reports whether the request may be sent again: non-idempotent requests are not repeated
// once they have been sent.
func (s *upstreamRequest) canRetry(ctx context.Context, notSent bool, tries int) bool {
	n := &s.proxy.next
	if n.Off || ctx.Err() != nil || n.Tries > 0 && tries >= n.Tries || s.retryTimeIsOver() {
		return false
	}
	return (notSent || s.spec.isRepeatable) && s.spec.body.isAvailable()
}

// retryTimeIsOver reports whether the time for trying servers has passed.
func (s *upstreamRequest) retryTimeIsOver() bool {
	limit := s.proxy.next.For
	return limit > 0 && time.Since(s.firstAttempt.startTime) >= limit
}

// roundTrip sends the request to a server and waits for the head of the response.
func (s *upstreamRequest) roundTrip(a *attempt) (*http.Response, error) {
	body, err := s.spec.body.open()
	if err != nil {
		return nil, err
	}
	body = a.wrapBody(body)
	a.url = url.URL{Scheme: "http", Opaque: s.spec.requestTarget}
	if s.tlsClient != nil {
		a.url.Scheme = "https"
	}
	if s.proxy.fastcgi == nil {
		a.url.Host = s.group.hostOf(a.addr)
	}
	r := &a.httpRequest
	*r = *(&http.Request{ // the literal does not escape, and neither does its copy
		Method: s.spec.method, URL: &a.url, Host: s.spec.host, Header: s.spec.header,
		ProtoMajor: 1, ProtoMinor: 1, Body: body, Close: (s.spec.header["Upgrade"] == nil || s.proxy.fastcgi != nil) &&
			(!s.spec.reusesConn || s.group.peers.Config().Keepalive == 0),
	}).WithContext(a)
	if body == http.NoBody {
		r.Body = nil
	} else {
		r.ContentLength = s.spec.body.length
		if replay := s.replayBody(r); replay != nil {
			defer replay.end()
		} else if s.spec.body.stream == nil {
			r.GetBody = func() (io.ReadCloser, error) {
				reopened, err := s.spec.body.open()
				return a.wrapBody(reopened), err
			}
		}
	}
	switch {
	case s.proxy.fastcgi != nil:
		return s.roundTripFastCGI(a, r)
	case s.proxy.header.isHTTP2:
		return s.roundTripHTTP2(a, r)
	case s.tlsClient != nil:
		return s.roundTripHTTP(s.tlsClient, a, r)
	}
	return s.roundTripHTTP(s.group.transport.http, a, r)
}

// roundTripHTTP sends the request by HTTP. The response to the first attempt has no Header if its
// head is in the client's memory.
func (s *upstreamRequest) roundTripHTTP(c *client.Client, a *attempt, r *http.Request) (*http.Response, error) {
	if a == &s.firstAttempt && s.clientMemory != nil {
		return c.RoundTripIn(s.clientMemory, r)
	}
	return c.RoundTrip(r)
}

// classify returns the fetchError for an error of an attempt.
func (s *upstreamRequest) classify(ctx context.Context, a *attempt, err error) *fetchError {
	f := &fetchError{kind: failureError, status: http.StatusBadGateway, err: err}
	var clientErr *client.Error
	var bodyErr *bodyError
	switch {
	case errors.Is(err, errUpstreamTimeout):
		f.kind = failureTimeout
	case ctx.Err() != nil:
		f.kind = failureClientGone
	case errors.As(err, &clientErr):
		// a request that must not be repeated can be retried only if nothing of it was sent
		f.notSent = clientErr.CanRetry && !a.canRepeat()
		switch {
		case clientErr.Kind == client.BadBody:
			f.kind = failureClientBody
		case clientErr.Kind == client.Malformed, clientErr.Kind == client.Rejected: // as nginx counts it
			f.kind = failureHeader
		case clientErr.Timeout():
			f.kind = failureTimeout
		}
	case errors.As(err, &bodyErr):
		f.kind = failureClientBody
	default: // the error is about the request
		f.kind = failureNoServer
	}
	if f.kind == failureTimeout {
		f.status = http.StatusGatewayTimeout
	}
	return f
}

// logFailure logs an error of a server.
func (s *upstreamRequest) logFailure(l level, addr string, err error) {
	scheme := "http://"
	switch {
	case s.proxy.fastcgi != nil:
		scheme = "fastcgi://"
	case s.tlsClient != nil:
		scheme = "https://"
	}
	if x := s.exchange; x != nil {
		x.upstreamURL = scheme + addr + s.spec.requestTarget
		x.errorf(l, "upstream: %v", err)
		return
	}
	if line := strings.Join(s.requestLine[:], " "); s.errorLog.isEnabled(l) && s.requestLine[0] != "" {
		s.errorLog.logf(l, "upstream %s%s: %v, request: %q", scheme, addr, err, truncateLogged(line))
	}
}

// hostOnly removes the port of a host. An invalid host is returned as it is: no certificate has
// such a name, so that verification fails.
func hostOnly(host string) string {
	if ip, err := netip.ParseAddrPort(host); err == nil {
		return ip.Addr().String()
	}
	if name, ok := hostName(host); ok {
		return name
	}
	return host
}

// responseBody is the body of a response. Its end is the end of the attempt.
type responseBody struct {
	io.ReadCloser
	attempt         *attempt
	countsAsFailure bool // the response counts as a failure of its server
	isComplete      bool // it was returned by completeBody
}

// Read waits for the server no longer than ReadTimeout.
func (b *responseBody) Read(p []byte) (int, error) {
	b.attempt.startWait()
	n, err := b.ReadCloser.Read(p)
	b.attempt.endWait(n)
	if err != nil {
		b.attempt.finish(b.countsAsFailure)
		if err != io.EOF && errors.Is(b.attempt.Err(), errUpstreamTimeout) {
			err = errUpstreamTimeout
		}
	}
	return n, err
}

// maxCompleteBody is the length up to which a body that has arrived is written in one call.
const maxCompleteBody = 16 << 10

// completeBody returns the body of a response that has arrived completely and is short, else nil.
// Such a body needs no reads.
func completeBody(resp *http.Response) *client.WholeBody {
	b, ok := resp.Body.(*responseBody)
	if !ok {
		return nil
	}
	w, ok := b.ReadCloser.(*client.WholeBody)
	if !ok || w.Len() > maxCompleteBody {
		return nil
	}
	b.isComplete = true
	b.attempt.endWait(w.Len())
	b.attempt.finish(b.countsAsFailure)
	return w
}

// isReusable reports whether nothing refers to the request any more, so that its memory can be
// reused. It had one attempt, whose response was complete, and neither a cache, a goroutine nor a
// waiter has seen it. A client drops a request without a body when it has returned the response.
func (s *upstreamRequest) isReusable() bool {
	a := &s.firstAttempt
	return s.proxy != nil && s.responseBody.isComplete && s.responseBody.attempt == a && s.spec.body == nil &&
		s.attempts.records == nil && a.wasUnobserved
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.attempt.finish(b.countsAsFailure)
	return err
}
