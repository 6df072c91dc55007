//go:build linux

package corpus_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// mayDiffer are fields that differ everywhere, and why.
var mayDiffer = map[string]string{
	"Date":              "it is another second",
	"Server":            "each gives its own name",
	"Connection":        "what is the version's default need not be said",
	"Keep-Alive":        "how long connections are kept is each server's affair",
	"Transfer-Encoding": "so is how the end of a body is told",
	"Content-Length":    "it is compared where both give one",
	"Etag":              "how it is made differs, but not whether it is there",
	"Content-Type":      "it is compared by itself",
}

// difference compares two answers.
func difference(t *testing.T, s *site, r *request, p *ports, nginx, tare *answer) {
	t.Helper()
	checkExcuses(t, r, p, nginx, tare)
	a, b := lines(s, r, p, nginx, tare), lines(s, r, p, tare, nginx)
	if slices.Equal(a, b) {
		return
	}
	t.Errorf("%s: %s %s://%s%s\n nginx, and only nginx:\n\t%s\n tare, and only tare:\n\t%s", r.title, r.method, r.scheme, r.host, r.target,
		strings.Join(without(a, b), "\n\t"), strings.Join(without(b, a), "\n\t"))
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// lines are what is compared of an answer with another one.
func lines(s *site, r *request, p *ports, a, other *answer) []string {
	differs := func(name string) bool { return r.differs[name] != "" || s.differs[name] != "" }
	all := []string{"error: " + a.err}
	if !differs("status") {
		all = append(all, "status: "+a.status)
	}
	part := strings.HasPrefix(a.status, "206") || strings.HasPrefix(a.status, "416")
	for name, values := range a.header {
		if name == "Accept-Ranges" && part {
			continue // that there are parts says so by itself
		}
		if name == "Expires" && sameLifetime(a.header, other.header) {
			values = []string{"the same"} // but for when it was asked
		}
		if mayDiffer[name] == "" && !differs(name) {
			all = append(all, strings.ToLower(name)+": "+strings.Join(values, " | "))
		}
	}
	if tag := a.header.Get("Etag"); tag != "" && !differs("Etag") {
		all = append(all, "etag: there, weak: "+map[bool]string{true: "yes", false: "no"}[strings.HasPrefix(tag, "W/")])
	}
	if r.framing {
		all = append(all, "framing: "+a.framing)
	}
	if !differs("Content-Type") {
		all = append(all, "content-type: "+withoutBoundary(a, a.header.Get("Content-Type")))
	}
	body := withoutBoundary(a, string(a.body))
	own := ownPage.MatchString(body)
	body = ownPage.ReplaceAllString(body, "<center>server</center>")
	if r.names {
		all = append(all, listedNames(body)...)
	} else if !differs("body") {
		all = append(all, "body: "+summary([]byte(body)))
	}
	if !a.unsized && !other.unsized && !own && !r.names && !differs("body") && !differs("Content-Length") {
		all = append(all, "content-length: "+a.header.Get("Content-Length"))
	}
	if !differs("upstream") {
		for _, text := range a.received {
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				name := strings.TrimSpace(line[:max(strings.IndexAny(line, ":="), 0)])
				upgrade := strings.EqualFold(line, "  connection: upgrade")
				if !differs("upstream "+name) && (upgrade || !ofEachServer.MatchString(line)) {
					all = append(all, "application: "+strings.Replace(line, "Upgrade", "upgrade", 1))
				}
			}
		}
	}
	for i := range all {
		all[i] = p.restore(all[i])
	}
	slices.Sort(all[1:])
	return all
}

// listedNames are those that a page lists, but for the folders above and links to other orders.
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

// sameLifetime reports whether two answers expire equally long after they were given, as the second that is told of each may be that before.
func sameLifetime(a, b http.Header) bool {
	const between = 2 * time.Second
	x, errA := lifetime(a)
	y, errB := lifetime(b)
	return errA == nil && errB == nil && (x-y).Abs() <= between
}

func lifetime(h http.Header) (time.Duration, error) {
	expires, errExpires := http.ParseTime(h.Get("Expires"))
	date, errDate := http.ParseTime(h.Get("Date"))
	return expires.Sub(date), errors.Join(errExpires, errDate)
}

var (
	// href is where a link of a page leads.
	href = regexp.MustCompile(`<a href="([^"]*)"`)
	// ownPage is what tells whose an error page is.
	ownPage = regexp.MustCompile(`<center>(nginx|tare)(/[\w.]*)?</center>`)
	// ofEachServer are lines that applications receive and that differ: how connections are kept, and who asks.
	ofEachServer = regexp.MustCompile(`^  (connection: |REMOTE_PORT=|SERVER_SOFTWARE=)`)
)

// makeCertificate writes a certificate of a name, and its key.
func makeCertificate(t *testing.T, cert, key, name string) {
	t.Helper()
	public, secret := testkit.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}})
	for file, text := range map[string][]byte{cert: public, key: secret} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
