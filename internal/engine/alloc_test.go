package engine_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// Budgets for the allocations of a request, beyond those of an empty loop: the exchange, the head's
// string, and the map. A response field adds its map's two parts and the value's slice. A browser's
// head needs a larger map, a slice for the values, and strings for names that the codec does not
// know.
var (
	budgetSmallGET = spending{3, 784}
	budgetHeader   = spending{3, 416}
	budgetBrowser  = spending{7, 2424}
)

// spending is a number of allocations and bytes.
type spending struct{ objects, bytes float64 }

func (s spending) plus(more spending) spending {
	return spending{s.objects + more.objects, s.bytes + more.bytes}
}

// spent measures what run allocates for each of its n iterations.
func spent(run func(n int)) spending {
	const n = 2000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	total := func(n int) spending {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(n)
		runtime.ReadMemStats(&after)
		return spending{float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)}
	}
	least := func(n int) spending { // other allocations appear only in some of the runs
		s := total(n)
		for range 2 {
			again := total(n)
			s.objects, s.bytes = min(s.objects, again.objects), min(s.bytes, again.bytes)
		}
		return s
	}
	total(n) // warms up
	once, twice := least(n), least(2*n)
	return spending{(twice.objects - once.objects) / n, (twice.bytes - once.bytes) / n}
}

// checkBudget compares the cost of a request with its budget. It allows slack for the runtime.
func checkBudget(t *testing.T, got, budget spending) {
	t.Helper()
	if got.objects > budget.objects+0.1 || got.bytes > budget.bytes+8 {
		t.Errorf("%.2f allocations of %.0f bytes a request, want at most %v of %v", got.objects, got.bytes,
			budget.objects, budget.bytes)
	}
	t.Logf("%.2f allocations of %.0f bytes a request", got.objects, got.bytes)
}

// repeater is a quietConn that sends the same request repeatedly, each after the last response.
type repeater struct {
	quietConn
	request []byte
	left    int
}

func (c *repeater) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	c.left--
	return copy(p, c.request), nil
}

func serveRepeatedly(s server, request string, n int) {
	c := &repeater{quietConn{closed: make(chan bool)}, []byte(request), n}
	l := &oneListener{conn: c, closed: make(chan bool)}
	served := goServe(s, l)
	<-c.closed
	s.Close()
	<-served
}

func TestRequestsAllocateLittle(t *testing.T) {
	testkit.NoRace(t, "it allocates")
	body := []byte("Hello World\n")
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	withField := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Write(body)
	})
	for _, test := range []struct {
		name      string
		newServer func(*http.Server) server
		request   string
		handler   http.Handler
		budget    spending
	}{
		{"small GET", httpServer, get, plain, budgetSmallGET},
		{"small GET, a field in the response", httpServer, get, withField, budgetSmallGET.plus(budgetHeader)},
		{"browser's GET", httpServer, browserGET, withField, budgetBrowser.plus(budgetHeader)},
		{"FastCGI, small GET", fcgiServer, listed(likeNginx...), plain, budgetSmallFCGI},
		{"FastCGI, small GET, a field in the response", fcgiServer, listed(likeNginx...), withField,
			budgetSmallFCGI.plus(budgetHeader)},
		{"FastCGI, browser's GET", fcgiServer, browserByFCGI(), withField, budgetBrowserFCGI.plus(budgetHeader)},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkBudget(t, spent(func(n int) {
				serveRepeatedly(test.newServer(&http.Server{Handler: test.handler}), test.request, n)
			}), test.budget)
		})
	}
}

// httpServer is a server for HTTP, as fcgiServer is for FastCGI.
func httpServer(settings *http.Server) server { return engine.New(settings) }

var browserGET = strings.ReplaceAll(`GET /articles/2026/11/weighing?ref=home HTTP/1.1
Host: www.example.org
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8
Accept-Language: en-GB,en;q=0.9,de;q=0.8
Accept-Encoding: gzip, deflate, br, zstd
Referer: https://www.example.org/
Connection: keep-alive
Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=yes
Upgrade-Insecure-Requests: 1
Sec-Fetch-Dest: document
Sec-Fetch-Mode: navigate
Sec-Fetch-Site: same-origin
Sec-Fetch-User: ?1
Sec-CH-UA-Platform: "Linux"
Priority: u=0, i

`, "\n", "\r\n")

// BenchmarkServe measures everything except the network.
func BenchmarkServe(b *testing.B) {
	handler := http.HandlerFunc(recipeA)
	for name, newServer := range makers {
		for kind, request := range map[string]string{"small": get, "browser": browserGET} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				serveRepeatedly(newServer(&http.Server{Handler: handler}), request, b.N)
			})
		}
	}
}
