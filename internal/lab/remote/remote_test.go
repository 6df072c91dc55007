package remote_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/remote"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
	"github.com/tarehq/tare/load/fleet"
)

// callerEnv is what the agent reports as its controller's address.
const callerEnv = "TARE_TEST_CALLER"

// This binary is the agents' program, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		o := agent.Options{Caller: os.Getenv(callerEnv)}
		if err := agent.Serve(context.Background(), os.Stdin, os.Stdout, o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

func open(t *testing.T, address string) (*remote.Generator, error) {
	t.Helper()
	own := testkit.Value(os.Executable())(t)
	g, err := remote.Open(context.Background(), fleet.Local("there", own), address, nil)
	if err == nil {
		t.Cleanup(g.Close)
	}
	return g, err
}

// A slice counts the requests between its begin and its end, and TLS sessions are resumed.
func TestSlicesAreCounted(t *testing.T) {
	testkit.Long(t, "it starts agents")
	g := testkit.Value(open(t, ""))(t)
	var served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Min(hello.SupportedVersions) < tls.VersionTLS13 {
			t.Errorf("the client offers versions %x", hello.SupportedVersions)
		}
		return nil, nil
	}}
	s.StartTLS()
	defer s.Close()
	config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		MinVersion: tls.VersionTLS13}
	p := load.Plan{URL: s.URL, Connections: 2, TLS: config, PerConnection: 10}
	session, err := g.Open(context.Background(), p)
	testkit.Must(t, err)
	started := served.Load()
	_, err = session.Slice(context.Background(), 200*time.Millisecond, true)
	ended := served.Load()
	if r := session.Close(); err != nil || r.Requests == 0 || int64(r.Requests) != ended-started || r.Resumed == 0 {
		t.Errorf("%+v, %v: %d and %d served", r, err, started, ended)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	session = testkit.Value(g.Open(context.Background(), p))(t)
	defer session.Close()
	testkit.Fails(session.Slice(ctx, time.Minute, true))(t, "", "an interrupted slice")
}

func TestLinkIsMeasured(t *testing.T) {
	g := testkit.Value(open(t, ""))(t)
	link := testkit.Value(g.Link(context.Background()))(t)
	if link.ShortestTrip <= 0 || link.RoundTrip < link.ShortestTrip || link.ToServers <= 0 || link.FromServers <= 0 ||
		link.Host != "there" || !strings.Contains(link.Text(), "bit/s to the servers") {
		t.Errorf("%+v: %s", link, link.Text())
	}
}

// Servers listen where the generator's machine reaches this one.
func TestAddressIsThisMachines(t *testing.T) {
	for _, test := range []struct{ wanted, caller, address, err string }{
		{"", "", "127.0.0.1", ""},
		{"", "127.0.0.2", "127.0.0.2", ""},
		{"127.0.0.3", "127.0.0.2", "127.0.0.3", ""},
		{"", "::ffff:127.0.0.4", "127.0.0.4", ""},
		{"192.0.2.1", "", "", "want an address of this machine"},
		{"", "fe80::1%eth0", "", "want an IPv4 address"},
		{"lab2", "", "", "want an IPv4 address"},
	} {
		t.Setenv(callerEnv, test.caller)
		g, err := open(t, test.wanted)
		if test.err == "" {
			if err != nil || g.Address != test.address {
				t.Errorf("%+v: %v, %v", test, g, err)
			}
		} else {
			testkit.Error(t, err, test.err, test)
		}
	}
}
