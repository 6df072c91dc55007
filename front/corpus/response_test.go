//go:build linux

package corpus_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// patience is the timeout of a request.
const patience = time.Minute

// response is the response to a request, as it is compared.
type response struct {
	status string
	header http.Header
	body   []byte
	err    string // instead of a response
	// unsized bodies have no length in the header.
	unsized  bool
	framing  string   // how the end of the body is marked
	ordered  []string // the lines of fields that servers pass on
	received []string // by applications
}

// send sends a request to a front's address and reads the response.
func send(r *request, address string) *response {
	c, err := r.dial(address)
	if err != nil {
		return &response{err: err.Error()}
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	var received bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &received))
	for before := ""; ; {
		if err := r.write(c); err != nil {
			return &response{err: "closed during the request"}
		}
		resp, err := r.final(in)
		if err != nil {
			return &response{err: plain(err)}
		}
		a := r.read(resp, c, in)
		a.ordered = passedOn(received.String())
		if a.status = before + a.status; r.kept == 0 {
			return a
		}
		if before = a.status + " "; resp.Close || strings.Count(before, " ") > r.kept {
			a.status += fmt.Sprintf(" close %v", resp.Close)
			return a
		}
	}
}

// passedOn returns the lines of the fields of a response, without those that each server writes in a
// place of its own.
func passedOn(response string) []string {
	head, _, _ := strings.Cut(response, "\r\n\r\n")
	return slices.DeleteFunc(strings.Split(head, "\r\n")[1:], func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return slices.Contains(ofServer, http.CanonicalHeaderKey(name))
	})
}

var ofServer = []string{"Server", "Date", "Content-Type", "Content-Length", "Last-Modified", "Connection",
	"Transfer-Encoding"}

// write writes the request, in five pieces if it pauses.
func (r *request) write(c net.Conn) error {
	text := r.text()
	if n := len(text) / 5; r.is["@pauses"] {
		for range 4 {
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return err
			}
			text = text[n:]
			time.Sleep(pauseTime)
		}
	}
	_, err := io.WriteString(c, text)
	return err
}

// final reads responses until one is not interim.
func (r *request) final(in *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: r.method})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// plain returns an error without its varying parts.
func plain(err error) string {
	text := err.Error()
	for _, end := range []string{"EOF", "reset by peer", "i/o timeout", "handshake failure", "unrecognized name"} {
		if strings.Contains(text, end) {
			if end == "reset by peer" {
				return "EOF"
			}
			return end
		}
	}
	return text
}

func (r *request) dial(address string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	if r.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(r.from)}
	}
	nc, err := d.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, r.before); err != nil || r.scheme != "https" {
		return nc, err
	}
	name, _, _ := strings.Cut(r.host, ":")
	c := tls.Client(nc, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := c.Handshake(); err != nil {
		nc.Close()
		return nil, fmt.Errorf("TLS: %s", plain(err))
	}
	return c, nil
}

// text returns the request as it is sent.
func (r *request) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, r.target, r.proto)
	if r.host != "" {
		fmt.Fprintf(&b, "Host: %s\r\n", r.host)
	}
	for _, f := range r.fields {
		b.WriteString(f + "\r\n")
	}
	switch {
	case r.is["@chunked"]:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := r.body; rest != ""; {
			n := min(len(rest), 10_000)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case r.body != "" && !strings.Contains(b.String(), "\r\nContent-Length:"):
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
	default:
		b.WriteString("\r\n" + r.body)
	}
	return b.String()
}

// read reads the body of a response.
func (r *request) read(resp *http.Response, c net.Conn, in *bufio.Reader) *response {
	a := &response{status: strconv.Itoa(resp.StatusCode), header: resp.Header, unsized: resp.ContentLength < 0,
		framing: framing(resp)}
	if t, ok := c.(*tls.Conn); ok {
		a.status += " from " + t.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	var err error
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		if _, err = io.WriteString(c, r.then); err == nil {
			a.body = make([]byte, len(r.then))
			_, err = io.ReadFull(in, a.body)
		}
	case resp.Header.Get("Content-Encoding") == "gzip" && r.method != http.MethodHead:
		var z *gzip.Reader
		if z, err = gzip.NewReader(resp.Body); err == nil {
			a.body, err = io.ReadAll(z)
		}
	default:
		a.body, err = io.ReadAll(resp.Body)
	}
	if err != nil {
		a.err = "body: " + plain(err)
	}
	for name, values := range resp.Trailer {
		a.header["trailer "+name] = values
	}
	return a
}

// framing returns how the end of the body is marked.
func framing(resp *http.Response) string {
	switch {
	case len(resp.TransferEncoding) > 0:
		return "chunks"
	case resp.ContentLength >= 0:
		return "length"
	case resp.Close:
		return "connection"
	}
	return "none"
}

// summary returns a body, or the length and checksum of a long one.
func summary(b []byte) string {
	if len(b) > 4<<10 {
		return fmt.Sprintf("%d bytes, %x", len(b), sha256.Sum256(b))
	}
	return strconv.Quote(string(b))
}
