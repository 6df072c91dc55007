package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// sized returns a POST with CONTENT_LENGTH n, whatever follows.
func sized(n int) string {
	return fcgiRequest{method: "POST", params: []string{"CONTENT_LENGTH", fmt.Sprint(n)}}.head()
}

// fcgiBodies are requests, what their handler reads, and whether the connection is closed after it.
var fcgiBodies = map[string]struct {
	request, want string
	closed        bool
}{
	"one record":   {aPOST("hello"), `5 false "hello" <nil>`, false},
	"many records": {sized(9) + inRecords(stdinStream, 1, 2, "123456789"), `9 false "123456789" <nil>`, false},
	"byte by byte": {sized(9) + inRecords(stdinStream, 1, 1, "123456789"), `9 false "123456789" <nil>`, false},
	"padding": {sized(3) + padded(stdinStream, 1, "12", 255) + padded(stdinStream, 1, "3", 1) +
		padded(stdinStream, 1, "", 7), `3 false "123" <nil>`, false},
	"no length": {fcgiRequest{method: "POST", body: "hello"}.String(), `-1 false "hello" <nil>`, false},
	"empty length": {fcgiRequest{method: "POST", body: "hello", params: []string{"CONTENT_LENGTH", ""}}.String(),
		`-1 false "hello" <nil>`, false},
	"no body":         {fcgiRequest{method: "POST"}.String(), `0 true "" <nil>`, false},
	"no body, length": {fcgiRequest{method: "POST", length: true}.String(), `0 true "" <nil>`, false},
	"of a GET":        {fcgiRequest{body: "hello", length: true}.String(), `5 false "hello" <nil>`, false},
	"a full record": {aPOST(strings.Repeat("x", largestContent)),
		fmt.Sprintf("%d false %q <nil>", largestContent, shorten(bytes.Repeat([]byte("x"), largestContent))), false},
	"more than a record": {aPOST(strings.Repeat("x", largestContent+1)),
		fmt.Sprintf("%d false %q <nil>", largestContent+1, shorten(bytes.Repeat([]byte("x"), largestContent+1))),
		false},
	"others' records": {sized(4) + rec(stdinStream, 1, "12") + rec(stdinStream, 2, "xx") +
		rec(stdinStream, 2, "") + rec(abortRequest, 2, "") + inRecords(stdinStream, 1, 9, "34"),
		`4 false "1234" <nil>`, false},
	"data records": {sized(4) + rec(stdinStream, 1, "12") + rec(dataStream, 1, "xx") +
		rec(dataStream, 1, "") + inRecords(stdinStream, 1, 9, "34"), `4 false "1234" <nil>`, false},
	"an application's": {sized(4) + rec(stdinStream, 1, "12") +
		rec(endRequest, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") + rec(stdoutStream, 1, "xx") +
		rec(stderrStream, 1, "xx") + inRecords(stdinStream, 1, 9, "34"), `4 false "1234" <nil>`, false},
	"records before it": {sized(2) + rec(getValues, 0, "") + rec(stdinStream, 9, "xx") +
		inRecords(stdinStream, 1, 9, "12"), `2 false "12" <nil>`, false},
	"shorter":              {sized(5) + inRecords(stdinStream, 1, 9, "1234"), `5 false "1234" unexpected EOF`, true},
	"shorter, none at all": {sized(5) + rec(stdinStream, 1, ""), `5 false "" unexpected EOF`, true},
	"longer": {sized(5) + inRecords(stdinStream, 1, 9, "123456"),
		`5 false "12345" fcgi: body longer than CONTENT_LENGTH`, true},
	"longer, by a record": {sized(5) + inRecords(stdinStream, 1, 5, "1234567890"),
		`5 false "12345" fcgi: body longer than CONTENT_LENGTH`, true},
	"longer than nothing": {sized(0) + inRecords(stdinStream, 1, 5, "1"),
		`0 false "" fcgi: body longer than CONTENT_LENGTH`, true},
	"begun again": {sized(4) + rec(stdinStream, 1, "12") + begins(1, true),
		`4 false "12" fcgi: repeated BEGIN_REQUEST for an active request`, true},
	"no record": {sized(4) + rec(stdinStream, 1, "12") + "HTTP/1.1",
		`4 false "12" fcgi: unsupported FastCGI version`, true},
}

// A body is the content of STDIN, in any records. If it does not match CONTENT_LENGTH, Read returns
// an error.
func TestFCGIBodyMatchesStdin(t *testing.T) {
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q %v", r.ContentLength, r.Body == http.NoBody, shorten(b), err)
	}), func(s *fcgiSite) {
		for name, test := range fcgiBodies {
			s.Run(name, func(t *testing.T) {
				p := s.in(t).peer()
				defer p.Close()
				if a := p.roundTrip(test.request); !strings.HasPrefix(a.body, test.want) {
					t.Errorf("got %s, want %s", a.body, test.want)
				}
				if test.closed {
					p.mustClose()
				} else if a := p.roundTrip(aPOST("next")); a.body != `4 false "next" <nil>` {
					t.Errorf("then %s", a.body)
				}
			})
		}
	})
}

// hiddenInRecords are bodies that look like other requests.
var hiddenInRecords = map[string]string{
	"small":           aGET("/smuggled"),
	"several records": strings.Repeat("x", 2*largestContent) + aGET("/smuggled"),
	"large":           strings.Repeat("x", 300<<10) + aGET("/smuggled"),
}

// The remainder of a body is not parsed as a request, and the next request is served.
func TestFCGIUnreadBodyIsNoRequest(t *testing.T) {
	var smuggled atomic.Int32
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			leaveBody[r.Header.Get("X-Leave")](w, r)
		case "/smuggled":
			smuggled.Add(1)
		default:
			io.WriteString(w, r.URL.Path)
		}
	}), func(s *fcgiSite) {
		for kind, hidden := range hiddenInRecords {
			for name := range leaveBody {
				s.Run(kind+"/"+name, func(t *testing.T) {
					p := s.in(t).peer()
					defer p.Close()
					sent := p.send(fcgiRequest{method: "POST", body: hidden, length: true,
						params: []string{"HTTP_X_LEAVE", name}}.String() + aGET("/next"))
					a, err := p.tryReadResponse()
					if (err != nil) != (name == "panic") {
						t.Errorf("%+v, %v", a, err)
					}
					a, err = p.tryReadResponse()
					switch {
					case name == "panic" && err != nil:
					case err != nil || a.body != "/next":
						t.Errorf("then %+v, %v", a, err)
					}
					p.Close()
					<-sent
					if n := smuggled.Swap(0); n > 0 {
						t.Errorf("%d requests out of a body", n)
					}
				})
			}
		}
	})
}

// A handler that reads a body exactly to CONTENT_LENGTH leaves no remainder: the next request is
// served.
func TestFCGIBodyReadToContentLengthLeavesNothing(t *testing.T) {
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, b)
		fmt.Fprint(w, string(b[:min(len(b), 9)]), err)
	}), func(s *fcgiSite) {
		p := s.peer()
		for _, size := range []int{1, 5000, 200_000} {
			text := strings.Repeat("x", size)
			if a := p.roundTrip(aPOST(text)); a.body != text[:min(size, 9)]+"<nil>" {
				s.Errorf("%d: %s", size, a.body)
			}
		}
	})
}

// A body arrives while its handler runs, in pieces that end anywhere.
func TestFCGIBodyArrivesWhileHandlerRuns(t *testing.T) {
	read := make(chan string, 100)
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		for b := make([]byte, 100); ; {
			n, err := r.Body.Read(b)
			read <- string(b[:n])
			if err != nil {
				fmt.Fprint(w, err)
				return
			}
		}
	}), func(s *fcgiSite) {
		p := s.peer()
		io.WriteString(p, sized(6))
		text := inRecords(stdinStream, 1, 3, "abcdef")
		for _, piece := range []struct{ text, want string }{
			{text[:8] + text[8:10], "ab"}, {text[10:15], "c"}, {text[15:20], "d"}, {text[20:26], "ef"},
		} {
			io.WriteString(p, piece.text)
			for got := ""; got != piece.want; {
				got += <-read
			}
		}
		io.WriteString(p, text[26:])
		if a := p.readResponse(); a.body != "EOF" {
			s.Errorf("got %q", a.body)
		}
		<-read
	})
}

// streamed returns how much TestFCGIStreamsUseConstantMemory sends in each direction.
func streamed(mode string) int64 {
	if testkit.Slow() && mode == "tcp" {
		return 1 << 30
	}
	return 12 << 20
}

// A body is streamed to a handler and back at the same time, in constant memory.
func TestFCGIStreamsUseConstantMemory(t *testing.T) {
	withoutReserve(t)
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }), func(s *fcgiSite) {
		size := streamed(s.mode)
		for _, length := range [][]string{{"CONTENT_LENGTH", fmt.Sprint(size)}, nil} {
			p := s.peer()
			p.SetDeadline(time.Now().Add(5 * time.Minute))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			upload := make(chan [sha256.Size]byte, 1)
			go func() {
				io.WriteString(p, fcgiRequest{method: "POST", params: length}.head())
				upload <- sendStream(p, size)
			}()
			n, download, err := receiveStream(p.in)
			runtime.ReadMemStats(&after)
			if n != size || err != nil || download != <-upload {
				s.Errorf("%d bytes came back, %v", n, err)
			}
			// The in-memory network consists of buffers.
			if grown := int64(after.TotalAlloc - before.TotalAlloc); s.mode != "memory" && grown > 3<<20 {
				s.Errorf("allocated %d bytes to move %d", grown, 2*size)
			}
			if a := p.roundTrip(aPOST("next")); a.body != "next" {
				s.Errorf("then %q", a.body)
			}
		}
	})
}

// sendStream sends size bytes of STDIN in large records, without allocating them.
func sendStream(w io.Writer, size int64) [sha256.Size]byte {
	b := []byte(rec(stdinStream, 1, strings.Repeat("s", largestContent)))
	sum := sha256.New()
	for i := 0; size > 0; i++ {
		n := min(size, int64(32<<10+i%8))
		binary.BigEndian.PutUint16(b[4:], uint16(n))
		b[8+i%1000]++
		sum.Write(b[8 : 8+n])
		if _, err := w.Write(b[:8+n]); err != nil {
			break
		}
		size -= n
	}
	io.WriteString(w, rec(stdinStream, 1, ""))
	return digestOf(sum)
}

func digestOf(h hash.Hash) (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}

// receiveStream reads a response with a body of any size.
func receiveStream(r io.Reader) (n int64, sum [sha256.Size]byte, err error) {
	h, b := sha256.New(), make([]byte, 8+largestContent)
	for inHead := true; ; {
		if _, err := io.ReadFull(r, b[:8]); err != nil {
			return n, sum, err
		}
		content := b[8 : 8+int(binary.BigEndian.Uint16(b[4:]))]
		if _, err := io.ReadFull(r, content); err != nil {
			return n, sum, err
		}
		switch {
		case b[1] == endRequest:
			return n, digestOf(h), nil
		case b[1] != stdoutStream:
			return n, sum, fmt.Errorf("record % x", b[:8])
		case inHead:
			if _, body, found := bytes.Cut(content, []byte("\r\n\r\n")); found {
				inHead, content = false, body
			} else {
				content = nil
			}
		}
		h.Write(content)
		n += int64(len(content))
	}
}

// The spans of a list with many records are released with their request.
func TestFCGILargeListIsReleased(t *testing.T) {
	withoutReserve(t)
	list := nameValues(append(fcgiRequest{}.list(), "HTTP_X", strings.Repeat("x", 100_000))...)
	everyFCGIMode(t, handle(fcgiDump), func(s *fcgiSite) {
		p := s.peer()
		p.roundTrip(aGET("/"))
		before := inUse()
		for range 3 {
			p.roundTrip(begins(1, true) + inRecords(paramsStream, 1, 1, list) + rec(stdinStream, 1, ""))
		}
		p.roundTrip(aGET("/"))
		if grown := int64(inUse()) - int64(before); grown > 512<<10 {
			s.Errorf("%d bytes are kept", grown)
		}
	})
}
