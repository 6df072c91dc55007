package nginxconf

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/internal/testkit"
)

func oneFile(text string) fs.FS { return fstest.MapFS{"nginx.conf": {Data: []byte(text)}} }

// messages returns all messages of Parse.
func messages(t *testing.T, r *Result, err error) []Message {
	t.Helper()
	all := errorsOf(t, err)
	if r != nil {
		all = append(append(append(all, r.Ignored...), r.Notes...), r.Warnings...)
	}
	return all
}

func errorsOf(t *testing.T, err error) []Message {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v: want joined errors", err)
	}
	var all []Message
	for _, e := range joined.Unwrap() {
		m, ok := e.(Message) //nolint:errorlint // Parse joins Messages
		if !ok {
			t.Fatalf("%v: want a Message", e)
		}
		all = append(all, m)
	}
	return all
}

// parsed parses a valid configuration.
func parsed(t *testing.T, text string) *Result {
	t.Helper()
	r, err := Parse("nginx.conf", Options{FS: oneFile(text), Prefix: "/srv", DefaultPort: 80})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return r
}

// inHTTP returns a configuration with text in its http block.
func inHTTP(text string) string { return "events {}\nhttp {\n" + text + "\n}" }

// tlsSummary is the comparable part of a tls.Config.
type tlsSummary struct {
	Min, Max              uint16
	Suites                []uint16
	Curves                []tls.CurveID
	Auth                  tls.ClientAuthType
	NoTickets, Insecure   bool
	Clients, Roots, Depth bool
	Certificates          int
}

func summary(c *tls.Config) any {
	if c == nil {
		return nil
	}
	return tlsSummary{
		Min: c.MinVersion, Max: c.MaxVersion, Suites: c.CipherSuites, Curves: c.CurvePreferences, Auth: c.ClientAuth,
		NoTickets: c.SessionTicketsDisabled, Insecure: c.InsecureSkipVerify, Clients: c.ClientCAs != nil,
		Roots: c.RootCAs != nil,
		Depth: c.VerifyConnection != nil, Certificates: len(c.Certificates),
	}
}

// dumped returns a result as text. Equal results have equal texts.
func dumped(t *testing.T, r *Result) string {
	t.Helper()
	var b strings.Builder
	for i := range r.Config.Hosts {
		h := &r.Config.Hosts[i]
		h.Pos = ""
		for j := range h.Listen {
			fmt.Fprintf(&b, "%+v\n", summary(h.Listen[j].TLSConfig))
			h.Listen[j].TLSConfig = nil
		}
		for j := range h.Locations {
			l := &h.Locations[j]
			l.Pos = ""
			if l.Proxy != nil {
				fmt.Fprintf(&b, "%+v\n", summary(l.Proxy.TLS.Config))
				l.Proxy.TLS.Config = nil
			}
		}
	}
	for i := range r.Config.Upstreams {
		r.Config.Upstreams[i].Pos = ""
	}
	for i := range r.Process.Listeners {
		r.Process.Listeners[i].TLSConfig = nil
	}
	text := testkit.Value(json.MarshalIndent([]any{r.Config, r.Process}, "", " "))(t)
	return b.String() + string(text)
}
