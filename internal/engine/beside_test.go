package engine_test

import (
	"context"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// beside runs a test on net/http's server and on this engine, over every kind of connection.
func beside(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	for _, maker := range slices.Sorted(maps.Keys(makers)) {
		for _, mode := range slices.Sorted(maps.Keys(modes)) {
			t.Run(maker+"/"+mode, func(t *testing.T) { test(siteOf(t, maker, mode, settings())) })
		}
	}
}

// siteOf returns a site with the server of a maker.
func siteOf(t *testing.T, maker, mode string, set *http.Server) *site {
	l, dial := modes[mode](t)
	s := &site{T: t, mode: mode, dial: dial, logged: new(testkit.Log)}
	set.ErrorLog = log.New(s.logged, "", 0)
	server := makers[maker](set)
	served := goServe(server, l)
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	return s
}

// ours reports whether the server of a site made by beside is this engine.
func (s *site) ours() bool { return !strings.Contains(s.Name(), "/net/http/") }
