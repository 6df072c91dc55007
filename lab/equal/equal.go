// Package equal proves that contenders answer alike before anybody compares how
// fast they do it.
//
// It reads answers with net/http, or by FastCGI with a client of its own (fastcgi.go),
// not with this project's codecs, which the load generator uses.
package equal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/contender"
)

// Request is what every contender is asked.
type Request struct {
	Method string
	Path   string
	Host   string

	// By HTTP, clients speak this version, "1.0" or "1.1", which is also what "" is, and send
	// these fields, "Name: value" each.
	Version string
	Header  []string
	// PerConnection is how many requests they use a connection for, and say so; 0 is no bound.
	PerConnection int
}

// Answer is all a client can see of how a contender answers.
type Response struct {
	Status    int         `json:"status"`
	Header    http.Header `json:"header"`
	Body      []byte      `json:"body"`
	Bytes     int         `json:"bytes"`     // of the whole response as it came, records included
	KeepAlive bool        `json:"keepAlive"` // the connection served a second request, and nobody said that it would not

	closing bool // said by the client or by the answer
}

// timeout bounds one look at a contender. Under load one response may take as long: who is slow, or
// has no processor for a while, answers all the same.
const timeout = 10 * time.Second

// Ask sends the request twice over one connection, if that is to be kept, and returns
// how it was answered.
func Fetch(ctx context.Context, at contender.Place, r Request) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, at.Network(), at.Address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
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
	a.Bytes = raw.Len() - in.Buffered()
	if a.closing {
		return a, nil
	}
	again, err := exchange(c, in, r)
	a.KeepAlive = err == nil && again.Status == a.Status
	return a, nil
}

// errNotReady is what Ready returns for a front that has nobody behind it yet.
var errNotReady = errors.New("the front answers, but the application behind it does not")

// Ready returns nil once a contender that is starting answers. That a front answers
// for an application that is not there yet does not count.
func Ready(ctx context.Context, at contender.Place, r Request) error {
	a, err := Fetch(ctx, at, r)
	if err == nil && a.Status >= http.StatusBadGateway && a.Status <= http.StatusGatewayTimeout {
		return errNotReady
	}
	return err
}

// byHTTP sends a request over a connection, and reads the answer.
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
	if resp.TransferEncoding != nil { // net/http takes this out of the header, and the next
		resp.Header["Transfer-Encoding"] = resp.TransferEncoding
	}
	if _, kept := resp.Header["Connection"]; resp.Close && !kept {
		resp.Header["Connection"] = []string{"close"}
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, closing: last || resp.Close}, nil
}

// keepAlive is the difference in whether a connection is kept.
const keepAlive = "keep-alive"

// Difference is one thing in which two answers differ.
type Difference struct {
	What string `json:"what"` // "status", "body", "body length", "field Name", "bytes" or "keep-alive"
	Want string `json:"want"`
	Got  string `json:"got"`
}

func (d Difference) String() string {
	if d.What == keepAlive {
		told := map[string]string{"true": "kept", "false": "closed"}
		return fmt.Sprintf("%s: its connection is %s after an answer, where the control's is %s", d.What, told[d.Got], told[d.Want])
	}
	return fmt.Sprintf("%s: %s, where the control has %s", d.What, d.Got, d.Want)
}

// Compare returns how got differs from want: first what tells most.
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
		all = append(all, Difference{"body", "others", fmt.Sprintf("its own bytes after the first %d", excerptBytes)})
	}
	names := slices.Collect(maps.Keys(want.Header))
	for name := range got.Header {
		if _, ok := want.Header[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "Date" { // changes from one response to the next
			differ("field "+name, present(want.Header, name), present(got.Header, name))
			continue
		}
		differ("field "+name, field(want.Header, name), field(got.Header, name))
	}
	differ("bytes", want.Bytes, got.Bytes)
	differ(keepAlive, want.KeepAlive, got.KeepAlive)
	return all
}

// excerptBytes is how much of a body is shown.
const excerptBytes = 60

func excerpt(b []byte) string {
	if len(b) > excerptBytes {
		return fmt.Sprintf("%q...", b[:excerptBytes])
	}
	return fmt.Sprintf("%q", b)
}

func field(h http.Header, name string) string {
	values, ok := h[name]
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%q", strings.Join(values, ", "))
}

func present(h http.Header, name string) string {
	if _, ok := h[name]; ok {
		return "present"
	}
	return "none"
}
