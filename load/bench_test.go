package load_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

const (
	httpResponse = "HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Length: 12\r\n\r\nHello World\n"
	cgiResponse = "Status: 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 12\r\n\r\nHello World\n"
)

// BenchmarkRequest measures the generator's CPU time per request against a minimal server.
func BenchmarkRequest(b *testing.B) {
	responses := map[string]string{"http": httpResponse,
		"fcgi": load.Stdout(cgiResponse) + load.Stdout("") + load.End(0, 0)}
	for _, scheme := range []string{"http", "fcgi"} {
		for _, network := range []string{"tcp", "unix"} {
			for _, connections := range []int{64, 1000} {
				b.Run(scheme+"-"+network+"-"+strconv.Itoa(connections), func(b *testing.B) {
					l, url := listen(b, scheme, network)
					testkit.Accept(l, func(_ int, c net.Conn) { parrot(c, []byte(responses[scheme])) })
					var cpu, requests float64
					for b.Loop() {
						r, err := load.Run(context.Background(), load.Plan{
							URL: url, Connections: connections, Threads: 1, Warmup: 100 * time.Millisecond,
							Duration: 400 * time.Millisecond,
						})
						if err != nil || r.Errors.Total() > 0 {
							b.Fatal(err, r.Errors)
						}
						cpu += r.Generator.UserSeconds + r.Generator.SysSeconds
						requests += float64(r.Requests)
					}
					b.ReportMetric(cpu/requests*1e9, "cpu-ns/request")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// parrot sends the same response for each piece of input.
func parrot(c net.Conn, response []byte) {
	for in := make([]byte, 4096); ; {
		if _, err := c.Read(in); err != nil {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}
