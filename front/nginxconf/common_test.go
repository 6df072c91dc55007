package nginxconf

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
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

// parse parses a configuration.
func parse(text string, o Options) (*Result, error) {
	o.FS, o.Prefix, o.DefaultPort = oneFile(text), "/srv", 80
	return Parse("nginx.conf", o)
}

// parsed parses a valid configuration.
func parsed(t *testing.T, text string, o Options) *Result {
	t.Helper()
	r, err := parse(text, o)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return r
}

// respond returns the response to a GET of a configuration.
func respond(t *testing.T, c conf.Config, url string) *httptest.ResponseRecorder {
	t.Helper()
	h := testkit.Value(front.New(c))(t)
	defer func() { _ = h.Close() }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
	return w
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
