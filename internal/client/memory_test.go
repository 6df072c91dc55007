package client

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/internal/testkit"
)

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
	kept := make(map[string][]string)
	for i, head := range heads {
		config := dialing(&scriptedConn{text: fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n%s\r\n%d", head, i), piece: 1 << 20})
		config.Verbatim = true
		c := New(config)
		resp, err := c.RoundTripIn(&m, request(t, http.MethodGet, "http://host/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != fmt.Sprint(i) || err != nil {
			t.Errorf("%d: %q, %v", i, body, err)
		}
		if got, want := len(slices.Concat(slices.Collect(maps.Values(resp.Header))...)), strings.Count(head, "\r\n")+
			1; got != want {
			t.Errorf("%d: %d fields, want %d: %v", i, got, want, resp.Header)
		}
		for name, values := range resp.Header {
			kept[fmt.Sprint(i, name)] = values
		}
		m.Reset()
		c.CloseIdleConnections()
	}
	if got := fmt.Sprint(kept["0X-A"], kept["0X-B"], kept["1X-B"], kept["3X-G"]); got != "[1] [2 3] [4] [10]" {
		t.Errorf("kept: %s", got)
	}
	if len(m.slab.response.Header) != 0 || m.slab.request != nil || m.slab.conn != nil || m.slab.response.Body != nil {
		t.Error("something is left")
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

// An exchange in a Memory allocates the text of the head, the values of its fields, and little
// more.
func TestMemoryAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector's pools lose some of what they are given")
	}
	const most = 6 // including the test's own connection and dialing
	config := dialing(&repeats{})
	config.Verbatim, config.Settings.DisableCompression = true, true
	c := New(config)
	r := request(t, http.MethodGet, "http://host/", nil)
	var m Memory
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.RoundTripIn(&m, r); err != nil {
			t.Fatal(err)
		}
		m.Reset()
	}); n > most {
		t.Errorf("%v allocations, want at most %v", n, most)
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
	return copy(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\n\r\nhi"), nil
}
