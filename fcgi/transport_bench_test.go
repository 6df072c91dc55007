package fcgi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// BenchmarkTransport measures a request on a kept connection. The application does as little as
// possible.
func BenchmarkTransport(b *testing.B) {
	response := whole("Content-Type: text/plain\r\nX-Powered-By: nobody\r\n\r\nHello World\n")
	tr := checked(b, &fcgi.Transport{MaxIdleConnsPerHost: 1, Root: "/var/www", SplitPath: ".php",
		Addr: listen(b, "unix", func(p *peer, _ int) {
			for p.request() != nil {
				p.Write(response)
			}
		})})
	for _, bench := range []struct{ name, body string }{{"get", ""}, {"post", strings.Repeat("body", 1000)},
		{"upload", strings.Repeat("body", 10_000)}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := newRequest(b, "POST", address+"a/b.php/c?d=e", strings.NewReader(bench.body))
				r.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"a browser"}, "Accept-Encoding": {"gzip"},
					"Cookie": {"a=b; c=d"}}
				resp, err := tr.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
