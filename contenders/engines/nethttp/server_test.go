// Package nethttp_test measures Go's standard library.
package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/contenders/engines"
)

func serverGet(b *testing.B, site *engines.Site) {
	engines.ServerGet(b, site, func(s *engines.Site) engines.Server { return &http.Server{Handler: s.Handler()} })
}

func BenchmarkNetHTTPServerGet1ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(1)) }

func BenchmarkNetHTTPServerGet2ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(2)) }

func BenchmarkNetHTTPServerGet10ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10)) }

func BenchmarkNetHTTPServerGet10KReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10000)) }

func BenchmarkNetHTTPServerGet1ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(1))
}

func BenchmarkNetHTTPServerGet2ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(2))
}

func BenchmarkNetHTTPServerGet10ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(10))
}

func BenchmarkNetHTTPServerGet100ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(100))
}
