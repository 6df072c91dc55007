package engine_test

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// This file is the web server's side of FastCGI. It is written from the specification and does not
// use the server's codec, so that faults of the codec are found.

// The types of records (section 8).
const (
	beginRequest    = 1
	abortRequest    = 2
	endRequest      = 3
	paramsStream    = 4
	stdinStream     = 5
	stdoutStream    = 6
	stderrStream    = 7
	dataStream      = 8
	getValues       = 9
	getValuesResult = 10
	unknownType     = 11
)

const largestContent = 65535

func rec(kind int, id int, content string) string { return padded(kind, id, content, 0) }

func padded(kind, id int, content string, padding int) string {
	n := len(content)
	if n > largestContent {
		panic("content too large for a record")
	}
	header := []byte{1, byte(kind), byte(id >> 8), byte(id), byte(n >> 8), byte(n), byte(padding), 0}
	return string(header) + content + strings.Repeat("\xaa", padding)
}

// inRecords returns content in records of size bytes, and the empty record that ends the stream.
func inRecords(kind, id, size int, content string) string {
	var s strings.Builder
	for part := range slices.Chunk([]byte(content), size) {
		s.WriteString(rec(kind, id, string(part)))
	}
	return s.String() + rec(kind, id, "")
}

func begins(id int, keep bool) string {
	flags := map[bool]string{true: "\x01", false: "\x00"}[keep]
	return rec(beginRequest, id, "\x00\x01"+flags+"\x00\x00\x00\x00\x00")
}

// nameValues returns a list of names and values (section 3.4).
func nameValues(pairs ...string) string {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		for _, s := range pairs[i : i+2] {
			if len(s) < 128 {
				b = append(b, byte(len(s)))
			} else {
				b = binary.BigEndian.AppendUint32(b, uint32(len(s))|1<<31)
			}
		}
		b = append(append(b, pairs[i]...), pairs[i+1]...)
	}
	return string(b)
}

type fcgiRequest struct {
	id     int    // 0 stands for 1
	once   bool   // without FCGI_KEEP_CONN
	method string // "" stands for GET
	uri    string // REQUEST_URI; "" stands for /
	params []string
	body   string
	length bool // sends CONTENT_LENGTH
}

func (a fcgiRequest) head() string {
	return begins(a.number(), !a.once) + inRecords(paramsStream, a.number(), largestContent, nameValues(a.list()...))
}

func (a fcgiRequest) number() int { return cmp.Or(a.id, 1) }

func (a fcgiRequest) list() []string {
	all := []string{"REQUEST_METHOD", cmp.Or(a.method, http.MethodGet), "REQUEST_URI", cmp.Or(a.uri, "/"),
		"SERVER_PROTOCOL", "HTTP/1.1"}
	if a.length {
		all = append(all, "CONTENT_LENGTH", fmt.Sprint(len(a.body)))
	}
	return append(all, a.params...)
}

func (a fcgiRequest) String() string {
	return a.head() + inRecords(stdinStream, a.number(), largestContent, a.body)
}

// aGET and aPOST return simple requests. The connection is kept.
func aGET(uri string) string { return fcgiRequest{uri: uri}.String() }

func aPOST(body string) string { return fcgiRequest{method: "POST", body: body, length: true}.String() }

type fcgiResponse struct {
	id             int
	stdout, stderr []byte
	ended          bool // STDOUT has ended
	app            uint32
	status         byte // of END_REQUEST

	code   int
	header http.Header
	body   string
}

// parse splits STDOUT as web servers do (RFC 3875, 6.2).
func (a *fcgiResponse) parse() error {
	head, body, found := strings.Cut(string(a.stdout), "\r\n\r\n")
	if !found {
		return fmt.Errorf("no head in %.200q", a.stdout)
	}
	fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(head + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		return err
	}
	a.header, a.body = http.Header(fields), body
	status := a.header.Values("Status")
	if len(status) != 1 || !strings.HasPrefix(head, "Status: ") {
		return fmt.Errorf("status %q", status)
	}
	_, err = fmt.Sscan(status[0], &a.code)
	return err
}

// fcgiPeer is a web server's connection.
type fcgiPeer struct {
	*testing.T
	net.Conn
	in         *bufio.Reader
	open       map[int]*fcgiResponse
	management []string // records about the connection
}

func newFCGIPeer(t *testing.T, c net.Conn) *fcgiPeer {
	return &fcgiPeer{T: t, Conn: c, in: bufio.NewReader(c), open: make(map[int]*fcgiResponse)}
}

func (p *fcgiPeer) record() (kind, id int, content []byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(p.in, h[:]); err != nil {
		return 0, 0, nil, err
	}
	if h[0] != 1 || h[7] != 0 {
		return 0, 0, nil, fmt.Errorf("header % x", h)
	}
	content = make([]byte, int(binary.BigEndian.Uint16(h[4:]))+int(h[6]))
	_, err = io.ReadFull(p.in, content)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return int(h[1]), int(binary.BigEndian.Uint16(h[2:])), content[:len(content)-int(h[6])], err
}

// tryReadResponse reads up to the next END_REQUEST. It returns io.EOF if the connection was closed
// between two responses.
func (p *fcgiPeer) tryReadResponse() (*fcgiResponse, error) {
	for {
		kind, id, content, err := p.record()
		if err != nil {
			if errors.Is(err, io.EOF) && len(p.open) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		done, err := p.take(kind, id, content)
		if done != nil || err != nil {
			return done, err
		}
	}
}

// take processes a record and returns the response that it ends.
func (p *fcgiPeer) take(kind, id int, content []byte) (*fcgiResponse, error) {
	if id == 0 {
		p.management = append(p.management, fmt.Sprintf("%d %q", kind, content))
		return nil, nil
	}
	a := p.open[id]
	if a == nil {
		a = &fcgiResponse{id: id}
		p.open[id] = a
	}
	switch {
	case kind == stdoutStream && !a.ended:
		a.stdout = append(a.stdout, content...)
		a.ended = len(content) == 0
		return nil, nil
	case kind == stderrStream:
		a.stderr = append(a.stderr, content...)
		return nil, nil
	case kind == endRequest && len(content) == 8 && a.ended == (a.stdout != nil):
		delete(p.open, id)
		a.app, a.status = binary.BigEndian.Uint32(content), content[4]
		if a.stdout != nil {
			return a, a.parse()
		}
		return a, nil
	}
	return nil, fmt.Errorf("record of type %d out of place: %q", kind, content)
}

// readResponse is tryReadResponse for a response that must come.
func (p *fcgiPeer) readResponse() *fcgiResponse {
	p.Helper()
	a, err := p.tryReadResponse()
	if err != nil {
		p.Fatalf("no response: %v; so far %v", err, p.open)
	}
	return a
}

func (p *fcgiPeer) roundTrip(request string) *fcgiResponse {
	p.Helper()
	go func() { _, _ = io.WriteString(p.Conn, request) }()
	return p.readResponse()
}

type fcgiSite struct{ *site }

func (s *fcgiSite) peer() *fcgiPeer {
	s.Helper()
	return newFCGIPeer(s.T, s.connect())
}

// roundTrip sends a request on a connection of its own.
func (s *fcgiSite) roundTrip(request string) *fcgiResponse {
	s.Helper()
	p := s.peer()
	defer p.Close()
	return p.roundTrip(request)
}

// dispatched are the modes on shards in which handlers do not run where they do by default.
var dispatched = map[string]engine.Dispatch{"tcp, on loop": engine.OnLoop, "tcp, own goroutine": engine.OwnGoroutine}

func (s *fcgiSite) sendAndCheck(id int, deadline time.Time) {
	for p, j := s.peer(), 0; time.Now().Before(deadline) && !s.Failed(); j++ {
		path, body := fmt.Sprintf("/%d-%d", id, j), strings.Repeat("hello", j%200)
		a := p.roundTrip(fcgiRequest{id: 1 + j%1000, method: "POST", uri: path, body: body, length: true}.String())
		if a.id != 1+j%1000 || a.body != path+body+"." || len(a.stderr) > 0 {
			s.Errorf("%s: %v", path, a)
		}
	}
}

// everyFCGIMode runs a test over every kind of connection. Nothing of the server may be left
// afterwards.
func everyFCGIMode(t *testing.T, settings func() *http.Server, test func(*fcgiSite)) {
	t.Helper()
	someFCGIModes(t, settings, test, append(slices.Sorted(maps.Keys(dispatched)), "net.Conn")...)
}

func bothFCGIPaths(t *testing.T, settings func() *http.Server, test func(*fcgiSite)) {
	t.Helper()
	someFCGIModes(t, settings, test, "tcp", "net.Conn")
}

func someFCGIModes(t *testing.T, settings func() *http.Server, test func(*fcgiSite), names ...string) {
	t.Helper()
	for _, mode := range names {
		t.Run(mode, func(t *testing.T) {
			leaveNothing(t)
			kind, _, _ := strings.Cut(mode, ", ")
			set := settings()
			set.DisableGeneralOptionsHandler = true
			inMode(t, kind, set, func(s *engine.Server, _ *http.Server) {
				s.FastCGI, s.Dispatch = true, dispatched[mode]
			}, func(s *site) { test(&fcgiSite{s}) })
		})
	}
}

// leaveNothing fails the test if goroutines of the servers that it starts later do not end. No
// other test may run at the same time.
func leaveNothing(t *testing.T) {
	before := engineGoroutines()
	t.Cleanup(func() {
		testkit.WaitFor(t, "the server's goroutines to end", func() bool { return engineGoroutines() <= before })
	})
}

// engineGoroutines counts the goroutines that run the engine's code or were started by it.
func engineGoroutines() (n int) {
	for stack := range strings.SplitSeq(allStacks(), "\n\n") {
		if strings.Contains(stack, "tare/internal/engine.") || strings.Contains(stack, "tare/internal/engine/") {
			n++
		}
	}
	return n
}

func allStacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}
