package engine_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// serveConfig serves TLS connections by a configuration, on shards or on the goroutine path. The
// result is the server's address.
func serveConfig(t *testing.T, onShards bool, config *tls.Config, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	if l = (secureListener{l, config}); !onShards {
		l = tls.NewListener(l.(secureListener).Listener, config)
	}
	s := engine.New(&http.Server{Handler: handler})
	served := goServe(s, l)
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return address
}

// onBothTLSPaths runs a test on shards and on the goroutine path.
func onBothTLSPaths(t *testing.T, test func(t *testing.T, onShards bool)) {
	for name, onShards := range map[string]bool{"shards": true, "goroutines": false} {
		t.Run(name, func(t *testing.T) { test(t, onShards) })
	}
}

// Tickets resume sessions while the server has the key that encrypted them, also if newer keys have
// been added since. The server's keys change with its configuration, or by themselves with time.
func TestTicketsResumeWhileTheirKeyIsKept(t *testing.T) {
	old, fresh := [32]byte{1}, [32]byte{2}
	const day = 24 * time.Hour
	onBothTLSPaths(t, func(t *testing.T, onShards bool) {
		var clock atomic.Int64 // how far the server's clock is ahead
		certificates := testCertificates()
		withKeys := func(keys ...[32]byte) *tls.Config {
			c := &tls.Config{Certificates: certificates}
			c.SetSessionTicketKeys(keys)
			return c
		}
		own := &tls.Config{Certificates: certificates, // whose keys package tls makes
			Time: func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }}
		var current atomic.Pointer[tls.Config]
		base := own.Clone()
		base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil }
		address := serveConfig(t, onShards, base, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.TLS.DidResume)
		})
		tickets := tls.NewLRUClientSessionCache(1)
		for _, step := range []struct {
			what   string
			config *tls.Config
			ahead  time.Duration
			want   string
		}{
			{"first", withKeys(old), 0, "false"},
			{"same key", withKeys(old), 0, "true"},
			{"key added", withKeys(fresh, old), 0, "true"},
			{"old key removed", withKeys(fresh), 0, "true"}, // the last ticket is new
			{"key replaced", withKeys(old), 0, "false"},
			{"own keys", own, 0, "false"},
			{"own keys, again", own, 0, "true"},
			{"two days later", own, 2 * day, "true"},
			{"ten days later", own, 12 * day, "false"},
		} {
			current.Store(step.config)
			clock.Store(int64(step.ahead))
			if got := resumes(t, address, tickets); got != step.want {
				t.Errorf("%s: resumed is %s, want %s", step.what, got, step.want)
			}
		}
	})
}

// resumes connects with a ticket, if there is one, and returns the response.
func resumes(t *testing.T, address string, tickets tls.ClientSessionCache) string {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "a", ClientSessionCache: tickets}
	c, err := tls.Dial("tcp", address, config)
	testkit.Must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, get)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	testkit.Must(t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return string(b)
}
