// Package equal proves before a measurement that contenders send equal responses.
//
// It reads responses with net/http or with a FastCGI client of its own (fastcgi.go). It does not
// use this project's codecs, because the load generator does.
package equal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
)

// Request is the request that every contender receives.
type Request struct {
	Method string
	Path   string
	Host   string

	// Version is the version of HTTP, "1.0", "1.1" or HTTP2; "" is "1.1". Header holds header
	// fields, each as "Name: value". FastCGI uses neither.
	Version string
	Header  []string
	// PerConnection is the number of requests on a connection; 0 is no limit. If it is 1, the
	// request announces that it is the last.
	PerConnection int
	Resume        bool // resumes the TLS session of a connection before
}

// HTTP2 is the version of a Request by HTTP/2. It requires TLS.
const HTTP2 = "2"

// Response is everything that a client can observe of a contender's response.
type Response struct {
	Status    int         `json:"status"`
	Header    http.Header `json:"header"`
	Body      []byte      `json:"body"`
	Bytes     int         `json:"bytes"`     // of the whole response, with FastCGI records; 0 with HTTP/2
	KeepAlive bool        `json:"keepAlive"` // the connection served a second request

	// TLS describes what was negotiated: version, cipher suite, key exchange, protocol,
	// certificate; "" without TLS.
	TLS string `json:"tls,omitempty"`

	closing bool // the client or the server announced the end of the connection
}

// timeout limits one call of Fetch. It is as long as a response may take under load, because a slow
// contender, or one that has no processor for a while, is still valid.
const timeout = 10 * time.Second

// Fetch sends the request, and a second time on the same connection if it is kept. It returns the
// first response.
func Fetch(ctx context.Context, at contender.Place, r Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var config *tls.Config
	if at.TLS {
		config = clientTLS(r)
		if r.Resume {
			if _, err := fetch(ctx, at, r, config); err != nil { // for its session ticket
				return nil, err
			}
		}
	}
	return fetch(ctx, at, r, config)
}

// fetch connects and sends the request. It connects by TLS if config is not nil.
func fetch(ctx context.Context, at contender.Place, r Request, config *tls.Config) (*Response, error) {
	c, state, err := dial(ctx, at, config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	switch {
	case r.Version == HTTP2 && state == nil:
		return nil, errors.New("HTTP/2 is compared over TLS only")
	case r.Version == HTTP2:
		return byHTTP2(ctx, c, r, describeTLS(state))
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	exchange := byHTTP
	if at.Protocol == contender.FastCGI {
		exchange = byFastCGI
	}
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &raw))
	a, err := exchange(c, in, r)
	if err != nil {
		return nil, err
	}
	a.Bytes, a.TLS = raw.Len()-in.Buffered(), describeTLS(state)
	if a.closing {
		return a, nil
	}
	second, err := exchange(c, in, r)
	a.KeepAlive = err == nil && second.Status == a.Status
	return a, nil
}

// errNotReady is the error for a front whose application does not respond yet.
var errNotReady = errors.New("the front responds, but the application behind it does not")

// Ready returns a probe for contender.Stage: its result is nil once a starting contender responds. A
// front that responds with 502, 503 or 504 is not ready, because its application is not.
func Ready(c *contender.Contender, r Request) func(ctx context.Context, address string) error {
	return func(ctx context.Context, address string) error {
		a, err := Fetch(ctx, c.At(address), r)
		if err == nil && a.Status >= http.StatusBadGateway && a.Status <= http.StatusGatewayTimeout {
			return errNotReady
		}
		return err
	}
}

func byHTTP(out io.Writer, in *bufio.Reader, r Request) (*Response, error) {
	head := fmt.Appendf(nil, "%s %s HTTP/%s\r\nHost: %s\r\n", r.Method, r.Path, cmp.Or(r.Version, "1.1"), r.Host)
	for _, line := range r.Header {
		head = fmt.Appendf(head, "%s\r\n", line)
	}
	last := r.PerConnection == 1
	if last && r.Version != "1.0" {
		head = append(head, "Connection: close\r\n"...)
	}
	if _, err := out.Write(append(head, "\r\n"...)); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: r.Method})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.TransferEncoding != nil { // net/http removes this field from the header, and the next
		resp.Header["Transfer-Encoding"] = resp.TransferEncoding
	}
	if _, kept := resp.Header["Connection"]; resp.Close && !kept {
		resp.Header["Connection"] = []string{"close"}
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, closing: last || resp.Close}, nil
}

const keepAlive = "keep-alive" // name of the difference in whether connections are kept

// Difference is one difference between two responses.
type Difference struct {
	What string `json:"what"` // "status", "body", "body length", "field Name", "bytes", "TLS" or "keep-alive"
	Want string `json:"want"`
	Got  string `json:"got"`
}

func (d Difference) String() string {
	if d.What == keepAlive {
		states := map[string]string{"true": "kept", "false": "closed"}
		return fmt.Sprintf("%s: its connection is %s after a response, where the control's is %s", d.What,
			states[d.Got], states[d.Want])
	}
	return fmt.Sprintf("%s: %s, where the control has %s", d.What, d.Got, d.Want)
}

// Compare returns how got differs from want, the most significant difference first.
func Compare(want, got *Response) []Difference {
	var all []Difference
	differ := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			all = append(all, Difference{what, w, g})
		}
	}
	differ("status", want.Status, got.Status)
	differ("body", excerpt(want.Body), excerpt(got.Body))
	if len(want.Body) != len(got.Body) {
		differ("body length", len(want.Body), len(got.Body))
	} else if len(all) == 0 && !bytes.Equal(want.Body, got.Body) {
		all = append(all, Difference{"body", "others", fmt.Sprintf("other bytes after the first %d", excerptBytes)})
	}
	fields := make(http.Header)
	maps.Copy(fields, want.Header)
	maps.Copy(fields, got.Header)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		differ("field "+name, field(want.Header, name), field(got.Header, name))
	}
	differ("bytes", want.Bytes, got.Bytes)
	differ("TLS", want.TLS, got.TLS)
	differ(keepAlive, want.KeepAlive, got.KeepAlive)
	return all
}

const excerptBytes = 60 // maximum length of a shown part of a body

func excerpt(b []byte) string {
	if len(b) > excerptBytes {
		return fmt.Sprintf("%q...", b[:excerptBytes])
	}
	return fmt.Sprintf("%q", b)
}

func field(h http.Header, name string) string {
	values, ok := h[name]
	switch {
	case !ok:
		return "none"
	case name == "Date": // changes from one response to the next
		return "present"
	}
	return fmt.Sprintf("%q", strings.Join(values, ", "))
}
