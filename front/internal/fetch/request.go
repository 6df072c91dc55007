package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/client"
)

// Settings define how requests are sent. They do not change.
type Settings struct {
	ConnectTimeout time.Duration // for a connection, and again for its TLS handshake
	SendTimeout    time.Duration // between two writes of the request
	ReadTimeout    time.Duration // between two reads of the response
	Next           conf.NextUpstream
	IsFastCGI      bool
	IsHTTP2        bool
	Pending        *Pending // shared by the requests of all Settings
	// Expired ends requests when it is done.
	Expired     context.Context
	CatchStderr []string // texts in STDERR before a FastCGI response that make it invalid
}

// Caller is what a Request is made for. Its methods are called while Fetch runs, and Failed also
// while the body of the response is read.
type Caller interface {
	// AddParams adds the parameters of a FastCGI request.
	AddParams(p *client.Params)
	// Interim receives a 1xx response.
	Interim(status int, header http.Header)
	// Responded reports the status of an attempt that began at a time, 0 without a response.
	Responded(status int, began time.Time)
	// Failed reports an error of a server, or what an application writes to STDERR. URL has the
	// server's address in place of the host.
	Failed(url string, err error)
}

// Spec is what a Request sends.
type Spec struct {
	Method, Target, Host string
	Header               http.Header // read only, until the response
	Body                 *Body       // nil if there is none
	ReusesConn           bool        // the connection may be kept
	IsRepeatable         bool        // it may be sent again after a server has received it
}

// Request is a request to a group of servers, used once. Its memory may be used again if IsReusable
// says so. The caller sets the exported fields.
type Request struct {
	Settings *Settings
	Caller   Caller
	Group    *Group
	Turn     upstream.Turn  // the choice of servers
	TLS      *client.Client // of a TLS; nil without TLS
	// Transport has the connections without TLS; nil is the Group's.
	Transport *Transport
	Local     netip.AddrPort // the local address of connections; invalid for any
	ReadRate  int64          // bytes of the response per second; 0 is unlimited
	Spec      Spec
	Attempts  Attempts
	// Memory is for the first attempt; nil if it has none of its own. The response to that attempt
	// has no Header if its head is in the Memory.
	Memory *client.Memory

	firstAttempt attempt // avoids an allocation; most requests have one attempt
	responseBody responseBody

	// of firstAttempt; nil before its first use. It refers to the Request, and is reused with it.
	fastcgiOptions *client.FastCGIOptions
}

// Spare is memory of a Request that the next one in the same place can use.
type Spare struct{ fastcgiOptions *client.FastCGIOptions }

// Spare returns the memory of a request that is not used any more.
func (r *Request) Spare() Spare { return Spare{r.fastcgiOptions} }

// Use gives the memory to a request that is zero.
func (r *Request) Use(s Spare) { r.fastcgiOptions = s.fastcgiOptions }

// IsReusable reports whether nothing refers to the request any more, so that its memory can be
// reused. It had one attempt, whose response was complete, and neither a cache, a goroutine nor a
// waiter has seen it. A client drops a request without a body when it has returned the response.
func (r *Request) IsReusable() bool {
	a := &r.firstAttempt
	return r.Settings != nil && r.responseBody.isComplete && r.responseBody.attempt == a && r.Spec.Body == nil &&
		r.Attempts.records == nil && a.wasUnobserved
}

// Fetch tries servers of the group until one responds, as far as Settings.Next allows. An error
// that is not an *Error is about the request.
func (r *Request) Fetch(ctx context.Context) (*http.Response, error) {
	var last *Error
	var current *attempt
	defer func() {
		if current != nil { // a callback of the attempt has panicked
			current.finish()
		}
	}()
	for tries := 1; ; tries++ {
		addr, err := r.Turn.Next()
		if err != nil && (last == nil || last.Kind <= Timeout) && r.Turn.Refresh(ctx) {
			addr, err = r.Turn.Next()
		}
		if err != nil {
			if last == nil || r.Turn.HasUntried(tries-1) {
				last = &Error{NoServer, http.StatusBadGateway, err, true}
				r.Attempts.addNoServer(r.Group.Name)
				r.reportFailure(r.Group.Name, err)
			}
			return nil, last
		}
		a := r.startAttempt(ctx, addr)
		current = a
		resp, err := r.roundTrip(a)
		if current = nil; err != nil {
			last = r.classify(ctx, a, err)
			a.fail(last)
			r.Turn.Done(last.Kind < NoServer)
			if last.Kind <= NoServer {
				r.reportFailure(addr, err)
			}
			if !r.shouldRetry(ctx, last, tries) {
				return nil, last
			}
			continue
		}
		isRetryStatus := slices.Contains(r.Settings.Next.Statuses, resp.StatusCode) && !r.Settings.Next.Off
		// as in nginx a response that the client receives is no failure of its server
		if isRetryStatus && r.Turn.More() && r.canRetry(ctx, false, tries) {
			a.headReceived(resp.StatusCode)
			_ = resp.Body.Close()
			a.end()
			r.Turn.Done(resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound)
			last = &Error{Failure, resp.StatusCode, fmt.Errorf("status %d", resp.StatusCode), false}
			continue
		}
		a.headReceived(resp.StatusCode)
		// there is one response
		r.responseBody = responseBody{ReadCloser: resp.Body, attempt: a, pace: newPace(r.ReadRate)}
		resp.Body = &r.responseBody
		return resp, nil
	}
}

// roundTrip sends the request to a server and waits for the head of the response.
func (r *Request) roundTrip(a *attempt) (*http.Response, error) {
	body, err := r.Spec.Body.Open()
	if err != nil {
		return nil, err
	}
	body = a.wrapBody(body)
	a.url = url.URL{Scheme: "http", Opaque: r.Spec.Target}
	if r.TLS != nil {
		a.url.Scheme = "https"
	}
	if !r.Settings.IsFastCGI {
		a.url.Host = r.Group.hostOf(a.addr)
	}
	h := &a.httpRequest
	*h = *(&http.Request{ // the literal does not escape, and neither does its copy
		Method: r.Spec.Method, URL: &a.url, Host: r.Spec.Host, Header: r.Spec.Header,
		ProtoMajor: 1, ProtoMinor: 1, Body: body, Close: (r.Spec.Header["Upgrade"] == nil || r.Settings.IsFastCGI) &&
			(!r.Spec.ReusesConn || r.Group.Peers.Config().Keepalive == 0),
	}).WithContext(a)
	if body == http.NoBody {
		h.Body = nil
	} else {
		h.ContentLength = r.Spec.Body.length
		if replay := r.replayBody(h); replay != nil {
			defer replay.end()
		} else if r.Spec.Body.stream == nil {
			h.GetBody = func() (io.ReadCloser, error) {
				reopened, err := r.Spec.Body.Open()
				return a.wrapBody(reopened), err
			}
		}
	}
	switch isHTTP2 := r.Settings.IsHTTP2; {
	case r.Settings.IsFastCGI:
		return r.roundTripFastCGI(a, h)
	case r.TLS != nil && !isHTTP2:
		return r.TLS.RoundTripIn(r.memoryOf(a), h)
	case !isHTTP2:
		return r.transport().http.RoundTripIn(r.memoryOf(a), h)
	}
	h.Close = false // connections are shared
	if r.TLS != nil {
		return r.TLS.RoundTrip(h)
	}
	return r.transport().http2Client().RoundTrip(h)
}

// transport returns the connections without TLS.
func (r *Request) transport() *Transport {
	if r.Transport != nil {
		return r.Transport
	}
	return r.Group.Transport
}

// memoryOf returns the Memory of an attempt, or nil.
func (r *Request) memoryOf(a *attempt) *client.Memory {
	if a != &r.firstAttempt {
		return nil
	}
	return r.Memory
}

// reportFailure reports an error of a server.
func (r *Request) reportFailure(addr string, err error) {
	scheme := "http://"
	switch {
	case r.Settings.IsFastCGI:
		scheme = "fastcgi://"
	case r.TLS != nil:
		scheme = "https://"
	}
	r.Caller.Failed(scheme+addr+r.Spec.Target, err)
}
