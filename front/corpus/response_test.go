//go:build linux

package corpus_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
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

// mayDiffer lists the fields that may differ everywhere, with the reason.
var mayDiffer = map[string]string{
	"Date":              "the second may differ",
	"Server":            "each server has its own name",
	"Connection":        "the default of the version is optional",
	"Keep-Alive":        "keep-alive times are up to the server",
	"Transfer-Encoding": "framing is up to the server",
	"Content-Length":    "it is compared if both servers send it",
	"Etag":              "only its presence is compared",
	"Content-Type":      "it is compared separately",
}

// difference compares two responses.
func difference(t *testing.T, s *site, r *request, p *ports, nginx, tare *response) {
	t.Helper()
	checkExcuses(t, r, p, nginx, tare)
	a, b := lines(s, r, p, nginx, tare), lines(s, r, p, tare, nginx)
	if slices.Equal(a, b) {
		return
	}
	t.Errorf("%s: %s %s://%s%s\n only nginx:\n\t%s\n only tare:\n\t%s", r.title, r.method, r.scheme, r.host, r.target,
		strings.Join(without(a, b), "\n\t"), strings.Join(without(b, a), "\n\t"))
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// lines returns the comparable lines of a response.
func lines(s *site, r *request, p *ports, a, other *response) []string {
	differs := func(name string) bool { return r.differs[name] != "" || s.differs[name] != "" }
	all := []string{"error: " + a.err}
	if !differs("status") {
		all = append(all, "status: "+a.status)
	}
	part := strings.HasPrefix(a.status, "206") || strings.HasPrefix(a.status, "416")
	for name, values := range a.header {
		if name == "Accept-Ranges" && part {
			continue // implied by a partial response
		}
		if name == "Expires" && sameLifetime(a.header, other.header) ||
			name == "Cache-Control" && sameAge(a.header, other.header) {
			values = []string{"the same"} // except for the time of the request
		}
		if mayDiffer[name] == "" && !differs(name) {
			all = append(all, strings.ToLower(name)+": "+unique.ReplaceAllString(strings.Join(values, " | "), "$1$2…$3"))
		}
	}
	if tag := a.header.Get("Etag"); tag != "" && !differs("Etag") {
		all = append(all, "etag: there, weak: "+map[bool]string{true: "yes", false: "no"}[strings.HasPrefix(tag, "W/")])
	}
	if r.is["@order"] {
		all = append(all, "fields: "+strings.Join(a.ordered, " | "))
	}
	if r.is["@framing"] {
		all = append(all, "framing: "+a.framing)
	}
	if !differs("Content-Type") {
		all = append(all, "content-type: "+withoutBoundary(a, a.header.Get("Content-Type")))
	}
	body := withoutBoundary(a, string(a.body))
	own := ownPage.MatchString(body)
	body = ownPage.ReplaceAllString(body, "<center>server</center>")
	if r.is["@names"] {
		all = append(all, listedNames(body)...)
	} else if !differs("body") {
		all = append(all, "body: "+summary([]byte(body)))
	}
	if !a.unsized && !other.unsized && !own && !r.is["@names"] && !differs("body") && !differs("Content-Length") {
		all = append(all, "content-length: "+a.header.Get("Content-Length"))
	}
	if !differs("upstream") {
		for name, line := range receivedLines(a.received) {
			upgrade := strings.EqualFold(line, "  connection: upgrade")
			if !differs("upstream "+name) && (upgrade || !ofEachServer.MatchString(line)) {
				all = append(all, "application: "+strings.Replace(line, "Upgrade", "upgrade", 1))
			}
		}
	}
	for i := range all {
		all[i] = p.restore(all[i])
	}
	slices.Sort(all[1:])
	return all
}

// listedNames returns the names in a listing, except parent folders and links to other orders.
func listedNames(body string) []string {
	var all []string
	for _, m := range href.FindAllStringSubmatch(body, -1) {
		name, err := url.PathUnescape(strings.TrimPrefix(html.UnescapeString(m[1]), "./"))
		if err != nil {
			name = err.Error()
		}
		if !strings.HasPrefix(name, "../") && !strings.HasPrefix(name, "?") {
			all = append(all, "name: "+name)
		}
	}
	return all
}

// between is how far times may differ that servers computed in different seconds.
const between = 2 * time.Second

// sameLifetime reports whether two responses expire equally long after their Date.
func sameLifetime(a, b http.Header) bool {
	x, errA := lifetime(a)
	y, errB := lifetime(b)
	return errA == nil && errB == nil && (x-y).Abs() <= between
}

func lifetime(h http.Header) (time.Duration, error) {
	expires, errExpires := http.ParseTime(h.Get("Expires"))
	date, errDate := http.ParseTime(h.Get("Date"))
	return expires.Sub(date), errors.Join(errExpires, errDate)
}

// sameAge reports whether the values of Cache-Control are ages that end at the same time.
func sameAge(a, b http.Header) bool {
	x, endA := ageOf(a)
	y, endB := ageOf(b)
	return min(x, y) > 10 && endA.Sub(endB).Abs() <= between
}

// ageOf returns the max-age of a response in seconds, and when it ends. The age is 0 if there is
// another value.
func ageOf(h http.Header) (age int, end time.Time) {
	age, err := strconv.Atoi(strings.TrimPrefix(strings.Join(h["Cache-Control"], ","), "max-age="))
	date, errDate := http.ParseTime(h.Get("Date"))
	if err != nil || errDate != nil {
		return 0, time.Time{}
	}
	return age, date.Add(time.Duration(age) * time.Second)
}

var (
	// href is the target of a link in a page.
	href = regexp.MustCompile(`<a href="([^"]*)"`)
	// unique matches an ID of userid after the number of its service, and when it expires, unless
	// that is in 2037 ("max").
	unique = regexp.MustCompile(`(=[\w+/]{5})[\w+/]{17}|` +
		`(; expires=)[A-Z][a-z]{2}, \d\d-[A-Z][a-z]{2}-(?:2\d|3[0-6]|\d\d(\d\d)) \d\d:\d\d:\d\d GMT`)
	// ownPage matches what identifies the server in an error page.
	ownPage = regexp.MustCompile(`<center>(nginx|tare)(/[\w.]*)?</center>`)
	// ofEachServer matches lines that applications receive and that differ between servers: about
	// keep-alive and the client software.
	ofEachServer = regexp.MustCompile(`^  (connection: |REMOTE_PORT=|SERVER_SOFTWARE=)`)
)

// checkExcuses fails if an excuse of a request is not needed, or if an excused part of tare's
// response is not the one in @ours.
func checkExcuses(t *testing.T, r *request, p *ports, nginx, tare *response) {
	t.Helper()
	for name := range r.differs {
		if unpinned[r.title+"/"+name] {
			continue
		}
		ours, theirs := excusedPart(p, name, tare), excusedPart(p, name, nginx)
		if ours == theirs {
			t.Errorf("%s: @differs %s is not needed: both are %s", r.title, name, ours)
		}
		want, ok := r.ours[name]
		switch {
		case ok && ours != want:
			t.Errorf("%s: %s is\n\t%s\nwant\n\t%s", r.title, name, ours, want)
		case !ok:
			t.Errorf("%s: missing \"@ours %s: %s\" for \"@differs %s\"", r.title, name, ours, name)
		}
	}
	for name := range r.ours {
		if r.differs[name] == "" {
			t.Errorf("%s: @ours %s without @differs", r.title, name)
		}
	}
}

// unpinned lists excuses for parts that vary between runs: a response that arrives during the next
// request.
var unpinned = map[string]bool{
	"it has come/upstream":                      true,
	"stale during a background update/upstream": true,
}

// excusedPart returns the part of a response, or of what applications received, that an excuse
// names.
func excusedPart(p *ports, name string, a *response) string {
	var part string
	of, isUpstream := strings.CutPrefix(name, "upstream")
	switch {
	case isUpstream:
		var all []string
		for name, line := range receivedLines(a.received) {
			if of = strings.TrimSpace(of); (of == "" || of == name) && !ofEachServer.MatchString(line) {
				all = append(all, line)
			}
		}
		slices.Sort(all)
		part = summary([]byte(strings.Join(all, "\n")))
	case name == "status":
		part = a.status
	case name == "error":
		part = a.err
	case name == "body":
		part = summary([]byte(p.restore(ownPage.ReplaceAllString(withoutBoundary(a, string(a.body)),
			"<center>server</center>"))))
	default:
		part = withoutBoundary(a, strings.Join(a.header[name], " | "))
	}
	if part = p.restore(part); part == "" {
		return "none"
	}
	return part
}

// receivedLines returns the names of fields and parameters that applications received, with their
// lines.
func receivedLines(received []string) iter.Seq2[string, string] {
	return func(yield func(name, line string) bool) {
		for line := range strings.SplitSeq(strings.Join(received, "\n"), "\n") {
			if !yield(strings.TrimSpace(line[:max(strings.IndexAny(line, ":="), 0)]), line) {
				return
			}
		}
	}
}

// boundary matches the boundary of a multipart response.
var boundary = regexp.MustCompile(`^multipart/byteranges; boundary=(\S+)$`)

// withoutBoundary replaces the boundary of a multipart response in a text, because each server
// generates its own.
func withoutBoundary(a *response, text string) string {
	if m := boundary.FindStringSubmatch(a.header.Get("Content-Type")); m != nil {
		return strings.ReplaceAll(text, m[1], "BOUNDARY")
	}
	return text
}
