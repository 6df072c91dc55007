// Package tare_test measures tare, in front of the same handler as net/http.
package tare_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
)

func serverGet(b *testing.B, site *engines.Site) {
	engines.ServerGet(b, site, func(s *engines.Site) engines.Server {
		return tare.Wrap(&http.Server{Handler: s.Handler()})
	})
}

func BenchmarkTareServerGet1ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(1)) }

func BenchmarkTareServerGet2ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(2)) }

func BenchmarkTareServerGet10ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10)) }

func BenchmarkTareServerGet10KReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10000)) }

func BenchmarkTareServerGet1ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(1))
}

func BenchmarkTareServerGet2ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(2))
}

func BenchmarkTareServerGet10ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(10))
}

func BenchmarkTareServerGet100ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(100))
}
