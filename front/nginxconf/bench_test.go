package nginxconf

import (
	"fmt"
	"strings"
	"testing"
)

// The time per server must not depend on the number of servers, although inheritance searches the
// outer blocks for hundreds of names.
func BenchmarkParse(b *testing.B) {
	for _, servers := range []int{100, 2000} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			var text strings.Builder
			for i := range servers {
				fmt.Fprintf(&text, "server { listen 8080; server_name s%d.example.com; root /srv/%[1]d;\n", i)
				for j := range 10 {
					fmt.Fprintf(&text,
						"location /%d/ { proxy_pass http://127.0.0.1:8081; proxy_set_header Host $host; }\n", j)
				}
				text.WriteString("}\n")
			}
			o := Options{FS: oneFile(inHTTP(text.String()))}
			for b.Loop() {
				if _, err := Parse("nginx.conf", o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers), "us/server")
		})
	}
}
