package fetch

import (
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

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/client"
)

// Upstream sends requests to groups of servers. It does not change.
type Upstream struct {
	ConnectTimeout time.Duration // for a connection, and again for its TLS handshake
	SendTimeout    time.Duration // between two writes of the request
	ReadTimeout    time.Duration // between two reads of the response
	Next           conf.NextUpstream
	IsFastCGI      bool
	IsHTTP2        bool
	Pending        *Pending // shared by the requests of all Upstreams
	// Expired ends requests when it is done.
	Expired     context.Context
	CatchStderr []string // texts in STDERR before a FastCGI response that make it invalid
}

// Observer learns what happens to a Request. Its methods are called while Do runs, and Failed also
// while the body of the response is read.
type Observer interface {
	// Interim receives a 1xx response.
	Interim(status int, header http.Header)
	// Responded reports the status of an attempt that began at a time, 0 without a response.
	Responded(status int, began time.Time)
	// Failed reports an error of a server, or what an application writes to STDERR. URL has the
	// server's address in place of the host.
	Failed(url string, err error)
}

// Request is what an Upstream sends, and where: all that depends on the client's request. It is sent
// once.
type Request struct {
	Method, Target, Host string
	Header               http.Header    // read only, until the response
	Params               *client.Params // of FastCGI, instead of the Header
	Body                 *Body          // nil if there is none
	ReusesConn           bool           // the connection may be kept
	IsRepeatable         bool           // it may be sent again after a server has received it

	Observer Observer // nil without one
	Servers  *Servers
	Turn     upstream.Turn // the choice of servers

	Transport *Transport     // has the connections: that of the Servers, or of a Pool
	Local     netip.AddrPort // the local address of connections; invalid for any
	ReadRate  int64          // bytes of the response per second; 0 is unlimited
	Attempts  Attempts
	// Memory is that of the response, or nil. The response has no Header if its head is in it.
	Memory *client.Memory

	upstream     *Upstream
	firstAttempt attempt // avoids an allocation; most requests have one attempt
	responseBody responseBody
}

// Reset resets the Memory, and reports whether that and the memory of the request can be used again.
// The caller must not use the response any more.
func (r *Request) Reset() bool {
	a := &r.firstAttempt
	return r.responseBody.attempt == a && a.wasUnobserved && r.Memory.Reset()
}

// Do sends a request. It tries servers of the group until one responds, as far as Next allows. An
// error that is not an *Error is about the request.
func (u *Upstream) Do(ctx context.Context, r *Request) (*http.Response, error) {
	r.upstream = u
	var last *Error
	var current *attempt
	defer func() {
		if current != nil { // a callback of the attempt has panicked
			current.end(false)
		}
	}()
	for tries := 1; ; tries++ {
		addr, err := r.Turn.Next()
		if err != nil && r.Turn.Refresh(ctx) {
			addr, err = r.Turn.Next()
		}
		if err != nil {
			if last == nil || r.Turn.HasUntried(tries-1) {
				last = &Error{NoServer, http.StatusBadGateway, err, true}
				record := r.Attempts.add(r.Servers.Name)
				r.Attempts.update(record, func(s *Record) { s.Status, s.ResponseTime = last.Status, 0 })
				r.reportFailure(r.Servers.Name, err)
			}
			return nil, last
		}
		a := r.startAttempt(ctx, addr)
		current = a
		resp, err := r.roundTrip(a, addr)
		if current = nil; err != nil {
			last = r.classify(ctx, a, err)
			if last.Kind <= NoServer {
				r.reportFailure(addr, err)
			}
			a.fail(last)
			if !r.shouldRetry(ctx, last, tries) {
				return nil, last
			}
			continue
		}
		isRetryStatus := slices.Contains(u.Next.Statuses, resp.StatusCode)
		// as in nginx a response that the client receives is no failure of its server
		if isRetryStatus && r.Turn.More() && r.canRetry(ctx, false, tries) {
			a.headReceived(resp.StatusCode)
			_ = resp.Body.Close()
			a.end(resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound)
			last = &Error{Failure, resp.StatusCode, fmt.Errorf("status %d", resp.StatusCode), false}
			continue
		}
		a.headReceived(resp.StatusCode)
		// there is one response
		r.responseBody = responseBody{ReadCloser: resp.Body, attempt: a}
		if r.ReadRate > 0 {
			r.responseBody.pace = NewPace(r.ReadRate)
		}
		resp.Body = &r.responseBody
		return resp, nil
	}
}

// roundTrip sends the request to a server and waits for the head of the response.
func (r *Request) roundTrip(a *attempt, addr string) (*http.Response, error) {
	body, err := r.Body.Open()
	if err != nil {
		return nil, err
	}
	body = a.wrapBody(body)
	u := r.upstream
	a.url = url.URL{Scheme: "http", Opaque: r.Target}
	if r.Transport.tls != nil {
		a.url.Scheme = "https"
	}
	h := &a.httpRequest
	*h = http.Request{
		Method: r.Method, URL: &a.url, Host: r.Host, Header: r.Header, ProtoMajor: 1, ProtoMinor: 1, Body: body,
		// by HTTP/2 connections are shared
		Close: !u.IsHTTP2 && r.Header["Upgrade"] == nil &&
			(!r.ReusesConn || r.Servers.Peers.Config().Keepalive == 0),
	}
	if body == http.NoBody {
		h.Body = nil
	} else {
		h.ContentLength = r.Body.length
		stream := r.Body.stream
		if stream != nil && u.IsHTTP2 {
			stream.keep(true)
			defer stream.keep(false)
		}
		if stream == nil || u.IsHTTP2 {
			h.GetBody = func() (io.ReadCloser, error) {
				reopened, err := r.Body.Open()
				return a.wrapBody(reopened), err
			}
		}
	}
	a.call = client.Call{Context: a, Addr: addr, IsRepeatable: a.canRepeat(), Hooks: a, Memory: r.Memory,
		Params: r.Params, StreamBody: r.Body.IsStreamed()}
	resp, err := r.client().Do(h, &a.call)
	if err != nil || a.stderr == nil || a.stderr.caught == "" {
		return resp, err
	}
	_ = resp.Body.Close() // there is an error already
	return nil, &client.Error{Side: client.Server, Kind: client.Malformed, During: "reading the response of",
		Addr: addr, Err: fmt.Errorf("it wrote %q to STDERR", a.stderr.caught)}
}

func (r *Request) client() *client.Client {
	switch t := r.Transport; {
	case r.upstream.IsFastCGI:
		return t.fcgi
	case r.upstream.IsHTTP2:
		return t.http2()
	default:
		return t.http
	}
}

// responded reports the status of an attempt that began at a time, 0 without a response.
func (r *Request) responded(status int, began time.Time) {
	if r.Observer != nil {
		r.Observer.Responded(status, began)
	}
}

// ErrDisabled reports that max_fails failures have made a server unavailable, in nginx's words.
var ErrDisabled = errors.New("server temporarily disabled")

func (r *Request) reportFailure(addr string, err error) {
	scheme := "http://"
	switch {
	case r.Observer == nil:
		return
	case r.upstream.IsFastCGI:
		scheme = "fastcgi://"
	case r.Transport.tls != nil:
		scheme = "https://"
	}
	if strings.HasPrefix(addr, "/") {
		addr = "unix:" + addr + ":" // as nginx writes it
	}
	r.Observer.Failed(scheme+addr+r.Target, err)
}

// shouldRetry reports whether another server is tried after an error.
func (r *Request) shouldRetry(ctx context.Context, last *Error, tries int) bool {
	n := &r.upstream.Next
	isAllowed := [...]bool{Failure: n.Error, Timeout: n.Timeout, InvalidHeader: n.InvalidHeader}
	return last.Kind <= InvalidHeader && isAllowed[last.Kind] && r.canRetry(ctx, last.notSent, tries)
}

// canRetry reports whether the request may be sent again: non-idempotent requests are not repeated
// once they have been sent.
func (r *Request) canRetry(ctx context.Context, notSent bool, tries int) bool {
	n := &r.upstream.Next
	if n.Off || ctx.Err() != nil || n.Tries > 0 && tries >= n.Tries ||
		n.For > 0 && time.Since(r.firstAttempt.startTime) >= n.For {
		return false
	}
	return (notSent || r.IsRepeatable) && r.Body.IsAvailable()
}

// canRepeat reports whether a request may be sent again to a server that has closed a kept
// connection before its response began. nginx counts this as an error of the server: with
// proxy_next_upstream off it does not repeat.
func (a *attempt) canRepeat() bool {
	n := &a.request.upstream.Next
	return a.request.IsRepeatable && n.Error && !n.Off
}
