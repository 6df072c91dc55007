package client

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// proxyTo returns a proxy's Client for a server that sends text.
func proxyTo(text string) *Client {
	config := dialing(&scriptedConn{text: text})
	config.Verbatim = true
	return New(config)
}

// A Memory serves one exchange after another. Parts of an earlier response, except for the Header
// itself, do not change.
func TestMemoryKeepsEarlierValues(t *testing.T) {
	many := strings.Builder{}
	for i := range maxKeptFields + 1 {
		fmt.Fprintf(&many, "X-%d: x\r\n", i)
	}
	heads := []string{"X-A: 1\r\nX-B: 2\r\nX-B: 3\r\n", "X-B: 4\r\n", many.String(),
		"X-A: 5\r\nX-C: 6\r\nX-D: 7\r\nX-E: 8\r\nX-F: 9\r\nX-G: 10\r\n", ""}
	var m Memory
	ctx := &own{Context: t.Context(), t: t}
	kept := make(map[string][]string)
	for i, head := range heads {
		c := proxyTo(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n%s\r\n%d", head, i))
		resp := testkit.Value(c.Do(request(t, http.MethodGet, "http://host/", nil), &Call{Context: ctx, Memory: &m}))(t)
		testkit.Reads(t, resp.Body, fmt.Sprint(i), "body", i)
		if resp.Header != nil || m.Head() == nil {
			t.Errorf("%d: the response has a Header: %v", i, resp.Header)
		}
		if m.Header(); m.Head() != nil {
			t.Errorf("%d: the response has a Header, and a head", i)
		}
		testkit.Equal(t, len(slices.Concat(slices.Collect(maps.Values(resp.Header))...)), strings.Count(head, "\r\n")+1,
			"fields of response", i)
		for name, values := range resp.Header {
			kept[fmt.Sprint(i, name)] = values
		}
		if !m.Reset() {
			t.Error("the memory is not reused")
		}
		testkit.Equal(t, len(ctx.waiting), 0, "what waits for the end of the context")
		c.CloseIdleConnections()
	}
	testkit.Equal(t, fmt.Sprint(kept["0X-A"], kept["0X-B"], kept["1X-B"], kept["3X-G"]), "[1] [2 3] [4] [10]", "kept")
	if x := &m.slab; len(m.header) != 0 || x.response.Header != nil || x.request != nil || x.conn != nil ||
		x.response.Body != nil {
		t.Error("something is left")
	}
}

// A Memory that others may refer to is not reset, and another exchange does not use it.
func TestMemoryInUseIsNotReused(t *testing.T) {
	const unread, closed = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nx"
	for name, c := range map[string]struct {
		text     string
		body     io.Reader
		reads    bool
		isReused bool
	}{
		"unread": {text: unread}, "cut off": {text: unread, reads: true, isReused: true},
		"read": {text: closed, reads: true, isReused: true},
		"sent": {text: closed, reads: true, body: io.MultiReader(strings.NewReader("x"))},
	} {
		var m Memory
		client, call := proxyTo(c.text), &Call{Memory: &m}
		resp := testkit.Value(client.Do(request(t, http.MethodPost, "http://host/", c.body), call))(t)
		if c.reads {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		testkit.Equal(t, m.Reset(), c.isReused, name, "reset")
		testkit.Equal(t, m.isFree(), c.isReused, name, "free")
		if x := client.newSlab(request(t, http.MethodGet, "http://host/", nil), call); x == &m.slab != c.isReused {
			t.Errorf("%s: another exchange has the memory: %v", name, x == &m.slab)
		}
	}
}

// The memory of an exchange fills a size class of the allocator.
func TestSlabFillsItsClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("the sizes are those of 64 bits")
	}
	const class = 512
	if size := unsafe.Sizeof(slab{}); size > class || size <= class-unsafe.Sizeof("") {
		t.Errorf("a slab has %d bytes, the class %d", size, class)
	}
}

// The head in a Memory is what the server has sent, in its order and spelling, for both protocols.
// Reset overwrites it in builds with the tag poison.
func TestMemoryHasTheHeadAsReceived(t *testing.T) {
	const fields = "etag: \"1\"\r\nX-B:  2 \r\nSet-Cookie: a\r\nx-b: 3\r\nset-cookie: b\r\n"
	const want = `etag="1" X-B=2 Set-Cookie=a x-b=3 set-cookie=b`
	check := func(m *Memory, resp *http.Response, err error) {
		t.Helper()
		testkit.Must(t, err)
		head := m.Head()
		var got []string
		for _, f := range head.Fields {
			got = append(got, fmt.Sprintf("%s=%s", f.Name.In(head.Text), f.Value.In(head.Text)))
		}
		testkit.Equal(t, strings.Join(got, " "), want, "fields")
		b := resp.Body
		testkit.Reads(t, b, "body")
		text := head.Text
		m.Reset()
		if text := string(text); poison.Enabled == strings.Contains(text, "etag") {
			t.Errorf("after Reset: %q", text)
		}
	}
	var m Memory
	for range 2 {
		c := proxyTo("HTTP/1.1 200 OK\r\n" + fields + "\r\nbody")
		resp, err := c.Do(request(t, http.MethodGet, "http://host/", nil), &Call{Memory: &m})
		if resp != nil && resp.Body == http.NoBody {
			t.Fatal("no body")
		}
		check(&m, resp, err)
		text := "Status: 201 Made\r\n" + fields + "Connection: close\r\nproxy-connection: x\r\n\r\nbody"
		out := fcgi.AppendStream(nil, fcgi.Stdout, requestID, []byte(text))
		out = fcgi.AppendEnd(fcgi.AppendStreamEnd(out, fcgi.Stdout, requestID), requestID, fcgi.End{})
		config := dialing(&scriptedConn{text: string(out)})
		config.Verbatim, config.Addr = true, "host:1"
		c = NewFastCGI(config, &FastCGI{})
		resp, err = c.Do(request(t, http.MethodGet, "http://host/", nil), &Call{Memory: &m, Params: new(Params)})
		check(&m, resp, err)
	}
}

// A response in a Memory has a Header if its reader needs one: for the announced trailer section,
// after a retry, and unless the Client is a proxy's. A server may send its values after Reset.
func TestMemoryMakesANeededHeader(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nX-A: 1\r\n\r\n" +
		"1\r\na\r\n0\r\nX-T: 2\r\n\r\n"
	for _, c := range []struct {
		text     string
		verbatim bool
	}{{chunked, true}, {"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n", false}} {
		config := dialing(&scriptedConn{text: c.text})
		config.Verbatim = c.verbatim
		var m Memory
		resp := testkit.Value(New(config).Do(request(t, http.MethodGet, "http://host/", nil), &Call{Memory: &m}))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		values := resp.Header["X-A"]
		if m.Head() != nil || c.verbatim && (resp.Trailer.Get("X-T") != "2" || !m.Reset()) {
			t.Errorf("%q: header %v, trailer %v, or the memory is not reused", c.text, resp.Header, resp.Trailer)
		}
		testkit.Equal(t, values, []string{"1"}, "X-A")
	}
}

// The limits of allocations and bytes for a request: the slab, the string of the head, and the map
// of the header. A context that can end is watched, too. In a Memory, there is nothing else.
func TestTransportAllocatesLittle(t *testing.T) {
	testkit.NoRace(t, "it allocates")
	get := request(t, http.MethodGet, "http://host/path?query", nil)
	unwatched := get.WithContext(context.Background())
	var m Memory
	b := make([]byte, 100)
	for _, test := range []struct {
		name          string
		request       *http.Request
		call          *Call
		budget, bytes float64
	}{
		{"GET", unwatched, nil, 4, 512 + 80 + 48 + 352},
		{"GET that can be canceled", get, nil, 7, 512 + 80 + 48 + 352 + 144},
		{"GET in a Memory", unwatched, &Call{Memory: &m}, 0, 0},
	} {
		config := dialing(&repeats{})
		config.Verbatim = test.call != nil
		c := New(config)
		defer c.CloseIdleConnections()
		request := func() {
			resp, err := c.Do(test.request, test.call)
			testkit.Must(t, err)
			for err == nil {
				_, err = resp.Body.Read(b)
			}
			if resp.Body.Close(); test.call != nil && !m.Reset() {
				t.Fatal("the memory is not reused")
			}
		}
		const times = 200
		n, size := math.Inf(1), math.Inf(1)
		// the collector or the sweep of idle connections may allocate once, not each time
		for range 5 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n = min(n, testing.AllocsPerRun(times, request))
			runtime.ReadMemStats(&after)
			// AllocsPerRun makes one more call
			size = min(size, float64(after.TotalAlloc-before.TotalAlloc)/(times+1))
		}
		t.Logf("%s: %v allocations, %.0f bytes", test.name, n, size)
		if n > test.budget || size > test.bytes+64 { // for memory that is kept from then on
			t.Errorf("%s: %v allocations of %.0f bytes, want at most %v of %v", test.name, n, size, test.budget,
				test.bytes)
		}
	}
}

// repeats is a connection that responds to every write.
type repeats struct {
	scriptedConn
	due bool
}

func (c *repeats) Write(p []byte) (int, error) { c.due = true; return len(p), nil }

func (c *repeats) Read(p []byte) (int, error) {
	if !c.due {
		return 0, io.EOF
	}
	c.due = false
	return copy(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"), nil
}
