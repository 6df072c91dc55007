package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// HTTP/2 is used where TLS negotiates it. The body of the request that negotiates it arrives
// complete.
func TestTransportUsesNegotiatedHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %s", r.Proto, len(b), r.RemoteAddr)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig
	for _, test := range []struct {
		force bool
		want  string
	}{{true, "HTTP/2.0"}, {false, "HTTP/1.1"}} {
		tr := &tare.Transport{TLSClientConfig: config, ForceAttemptHTTP2: test.force}
		seen := make(map[string]bool)
		var mu sync.Mutex
		var all sync.WaitGroup
		send := func(body io.Reader, length int) {
			r := mustRequest("POST", s.URL, body)
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			var proto, addr string
			var n int
			fmt.Sscan(string(b), &proto, &n, &addr)
			if proto != test.want || n != length || resp.Request != r {
				t.Errorf("%s", b)
			}
			mu.Lock()
			seen[addr] = true
			mu.Unlock()
		}
		for range 4 {
			all.Go(func() { send(strings.NewReader("small"), 5) })
			all.Go(func() { send(io.LimitReader(zeros{}, 100_000), 100_000) })
		}
		all.Wait()
		clear(seen)
		for range 5 {
			send(nil, 0)
		}
		if len(seen) != 1 {
			t.Errorf("%d connections for requests one after another", len(seen))
		}
		testkit.WaitFor(t, "all connections to be idle", func() bool { return countOf(tr).Active == 0 })
		tr.CloseIdleConnections()
		if n := countOf(tr); n.Active+n.Idle+n.Hosts > 0 {
			t.Errorf("connections are left: %+v", n)
		}
	}
}

// HTTP/2 without HTTP/1.1 works, with and without TLS.
func TestTransportWorksWithoutHTTP1(t *testing.T) {
	var both, plain, over http.Protocols
	both.SetHTTP2(true)
	both.SetUnencryptedHTTP2(true)
	plain.SetUnencryptedHTTP2(true)
	over.SetHTTP2(true)
	s := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	s.Config.Protocols = &both
	s.Start()
	defer s.Close()
	tr := &tare.Transport{Protocols: &plain}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(mustRequest("GET", s.URL, nil))
	testkit.Must(t, err)
	if b, _ := io.ReadAll(resp.Body); string(b) != "HTTP/2.0" {
		t.Errorf("%s", b)
	}
	resp.Body.Close()
	for url, excluding := range map[string]*http.Protocols{"http://host": &over, "https://host": &plain} {
		_, err := (&tare.Transport{Protocols: excluding}).RoundTrip(mustRequest("GET", url, nil))
		if err == nil || !strings.Contains(err.Error(), "which Protocols excludes") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if c := tr.Clone(); c.Protocols == tr.Protocols || *c.Protocols != *tr.Protocols {
		t.Error("Protocols are not cloned")
	}
}
