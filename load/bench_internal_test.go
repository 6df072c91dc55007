package load

import (
	"context"
	"net"
	"testing"
)

// BenchmarkConsume measures the cost of parsing a response that was read in one piece.
func BenchmarkConsume(b *testing.B) {
	const head = "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 12\r\n\r\nHello World\n"
	for _, test := range []struct{ scheme, response string }{
		{"http", "HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" + head},
		{"fcgi", Stdout("Status: 200 OK\r\n"+head) + Stdout("") + End(0, 0)},
	} {
		b.Run(test.scheme, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			j, err := Plan{URL: test.scheme + "://" + l.Addr().String(), Connections: 1}.prepare(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			w, err := newWorker(newRun(j), 0, 0, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer w.close()
			w.beginCounting()
			c, in := &w.conns[0], []byte(test.response)
			b.ReportAllocs()
			for b.Loop() {
				c.state, c.inFlight, c.reusable.exchanges[0] = open, 1, exchange{message: &w.messages[0], active: true}
				if !w.consume(0, in) || c.inFlight != 0 {
					b.Fatal(w.tally.errors)
				}
			}
		})
	}
}
