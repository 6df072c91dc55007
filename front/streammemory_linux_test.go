package front_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A stream that waits holds none of the buffers for its request, its response, and what is copied
// between them: these are 16, 16 and 8 KB, and 16 KB of the upstream.
func TestWaitingStreamsHoldNoBuffers(t *testing.T) {
	testkit.NoRace(t, "the race detector takes memory")
	const streams, most = 200, 24 << 10
	upstream := serveOnTare(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 2 { // the second one shows that it is a stream
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	front := serveOnTare(t, newFront(t, oneHost(conf.Location{Path: "/",
		Proxy: &conf.Proxy{To: conf.Text(upstream), Version: "1.1", Stream: true}})))
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // empties the free lists
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	open := func() error {
		c, err := net.Dial("tcp", front)
		if err != nil {
			return err
		}
		t.Cleanup(func() { c.Close() })
		if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: front.test\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
		if err == nil {
			_, err = io.ReadFull(resp.Body, make([]byte, len("event\nevent\n")))
		}
		return err
	}
	var before int64
	for i := range streams + 1 { // the first one makes what all share
		if i == 1 {
			before = heap()
		}
		must(t, open())
	}
	testkit.WaitFor(t, "small streams", func() bool { // the last ones may be about to wait
		return (heap()-before)/streams < most
	})
}
