package server_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// BenchmarkRead reads, compiles and checks configurations with ten locations in each server, as
// tare serve -t does. Time and bytes per location must not depend on the number of servers.
func BenchmarkRead(b *testing.B) {
	for _, bm := range []struct{ name, location string }{
		{"proxy", "proxy_pass http://app; proxy_set_header Host $host; client_max_body_size %[1]dm; " +
			"proxy_read_timeout 1%[1]ds;"},
		{"return", "return 200 %d;"},
	} {
		for _, servers := range []int{200, 2000} {
			b.Run(fmt.Sprintf("%s/servers=%d", bm.name, servers), func(b *testing.B) {
				benchmarkRead(b, servers, 10, bm.location)
			})
		}
	}
}

func benchmarkRead(b *testing.B, servers, locations int, location string) {
	var text strings.Builder
	text.WriteString("events {}\nhttp {\nupstream app { server 127.0.0.1:9001; }\n")
	for i := range servers {
		fmt.Fprintf(&text, "server {\nlisten 8080;\nserver_name s%d.example.com;\n", i)
		for j := range locations {
			fmt.Fprintf(&text, "location /%d/ { "+location+" }\n", j)
		}
		text.WriteString("}\n")
	}
	text.WriteString("}\n")
	source := server.File{Path: "nginx.conf", Options: nginxconf.Options{Prefix: "/srv",
		FS: fstest.MapFS{"nginx.conf": &fstest.MapFile{Data: []byte(text.String())}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		testkit.Must(b, server.Check(source, server.Options{Stdout: io.Discard, Stderr: io.Discard}))
	}
	runtime.ReadMemStats(&after)
	all := float64(b.N * servers * locations)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/location")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/location")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/location")
}
