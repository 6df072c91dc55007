package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/h2test"
)

// flood is what a hostile client repeats.
type flood struct {
	begin, again string // frames; "ID" is a new stream each time
	times        int    // more than suffice to end the connection
}

// http2Floods are the classes of frames that end a connection with ENHANCE_YOUR_CALM.
func http2Floods() map[string]flood {
	const upload = "POST 1 /upload"
	return map[string]flood{
		"rapid reset":      {"", "GET ID, RST_STREAM ID", usualFrames},
		"made you reset":   {"", "GET ID, WINDOW_UPDATE ID 2147483647", usualFrames},
		"SETTINGS":         {upload, "SETTINGS 65535", usualFrames},
		"PING":             {upload, "PING", usualFrames},
		"PING ack":         {upload, "ACK any", usualFrames},
		"PRIORITY":         {upload, "PRIORITY ID", usualFrames},
		"PRIORITY_UPDATE":  {upload, "PRIORITY_UPDATE", usualFrames},
		"unknown frames":   {upload, "EXTENSION", usualFrames},
		"window of stream": {upload, "WINDOW_UPDATE 1 1", usualFrames},
		"window":           {upload, "WINDOW_UPDATE 0 256", usualFrames},
		"empty DATA":       {upload, "DATA 1", usualFrames},
		"padded DATA":      {upload, "PADDED-DATA 1 x", 5 * usualFrames},
		"small DATA":       {upload, "DATA 1 x", 60 * usualFrames},
		"CONTINUATION":     {"HEADERS 1", "CONTINUATION 1", 500},
		// opens the windows of all streams by some bytes, in several steps
		"windows of SETTINGS": {"SETTINGS 0, WINDOW_UPDATE 0 1073741824, " + eachStream("GET ID /write", 8),
			"SETTINGS ID 10", usualFrames},
		"header bomb": {"", "GET ID" + strings.Repeat(" x="+strings.Repeat("x", 3000), 100), 2 * usualFrames},
	}
}

// onStream returns frames with a stream in place of "ID".
func onStream(id int, frames string) string {
	return strings.ReplaceAll(frames, "ID", strconv.Itoa(id))
}

func eachStream(frames string, n int) string {
	var all []string
	for i := range n {
		all = append(all, onStream(2*i+1, frames))
	}
	return strings.Join(all, ", ")
}

// floodContent is what all clients of a flood send. It is made when the first of them needs it: a
// server ends most connections early.
type floodContent struct {
	flood
	mu   sync.Mutex
	made int // times
	all  *h2test.Frames
}

func (f flood) content(t *testing.T) *floodContent {
	c := &floodContent{flood: f, all: newFrames(t)}
	c.all.Add(f.begin)
	return c
}

// after returns a part of what follows the first n bytes.
func (c *floodContent) after(n int) []byte {
	const piece = 16 << 10
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.all.Len() < n+piece && c.made < c.times; c.made++ {
		c.all.Add(onStream(2*c.made+3, c.again))
	}
	rest := c.all.Bytes()[n:]
	return rest[:min(len(rest), piece)]
}

// usualFrames exceeds what ends a connection if each frame costs a unit, also if the server takes a
// minute to read them.
const usualFrames = 10_000

// hostileConns returns how many connections attack a server at the same time. Those that send more
// than usual are fewer.
func hostileConns(frames int) int {
	const few = 2
	if !testkit.Slow() {
		return max(1, few*usualFrames/max(frames, usualFrames))
	}
	n := manyHostileConns / len(http2Modes) * usualFrames / max(frames, usualFrames)
	if testkit.Race {
		return n / raceSlowdown
	}
	return n
}

const (
	// manyHostileConns is how many connections attack in the slow form, all modes together.
	manyHostileConns = 10_000
	// raceSlowdown is how many times fewer they are with the race detector.
	raceSlowdown = 10
)

// A flood of any class ends its connection and no other one, over each kind of connection. In the
// slow form, which runs server and attackers in other processes, the server takes little memory,
// and other clients wait no longer than those of net/http's server.
func TestHTTP2FloodsEndTheirConnections(t *testing.T) {
	testkit.Long(t, "it sends many frames")
	for name, f := range http2Floods() {
		t.Run(name, func(t *testing.T) {
			content := f.content(t)
			modes := slices.Sorted(maps.Keys(http2Modes))
			if !testkit.Slow() { // each path, and each of TLS and none
				modes = []string{"h2-tls-shard", "h2c-goroutine"}
			}
			for _, mode := range modes {
				t.Run(mode, func(t *testing.T) {
					s, n := newTarget(t, "tare", mode), hostileConns(f.times)
					begun := time.Now()
					ours := s.attack(name, content, n, 0)
					ended := s.state()
					testkit.Equal(t, ended.calmed, int64(n), "connections that have ended with ENHANCE_YOUR_CALM")
					testkit.Equal(t, ended.other, 0, "connections that have ended with other errors")
					if !testkit.Slow() {
						return
					}
					memory, slack := floodMemory, harmSlack
					if name == "header bomb" {
						memory = bombMemory
					}
					if strings.HasSuffix(mode, "-goroutine") {
						slack *= goroutineFactor
					}
					s.wantMemory(n, memory)
					elapsed := time.Since(begun)
					netHTTP := newTarget(t, "net/http", mode)
					theirs := netHTTP.attack(name, content, n, min(elapsed, longestComparison))
					t.Logf("%d connections in %v; others' p99 is %v, with net/http %v", n, elapsed, ours, theirs)
					testkit.Between(t, ours, 0, harmFactor*theirs+slack, "the p99 of others; with net/http", theirs)
				})
			}
		})
	}
}

const (
	// floodMemory is how much memory a connection of a flood may take.
	floodMemory = 128 << 10
	// bombMemory is likewise for header bombs: each connection decodes a head of 300 KB.
	bombMemory = 1 << 20
	// goroutineFactor is how many times as much slack there is on the goroutine path, where all
	// connections run at the same time, each with two goroutines and handlers of its own.
	goroutineFactor = 2
	// longestComparison limits how long net/http's server is attacked.
	longestComparison = 10 * time.Second
	// harmFactor and harmSlack limit the p99 of other clients, compared with net/http's. The slack
	// is for other programs on the machine; on shards the p99 was at most 180 ms.
	harmFactor = 2
	harmSlack  = 500 * time.Millisecond
)

// targetHandler is the handler of a server that hostile clients attack. It reports its state to any
// client.
type targetHandler struct {
	server               atomic.Pointer[engine.Server] // nil for net/http's
	calmed, other, begun atomic.Int64
}

type targetState struct {
	calmed int64 // connections that have ended with ENHANCE_YOUR_CALM
	other  int64 // connections that have ended with other errors
	begun  int64 // handlers that have begun to receive or to send a body
	open   int64 // connections
}

func (g *targetHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/state":
		open := int64(0)
		if s := g.server.Load(); s != nil {
			_, open = s.Connections()
		}
		fmt.Fprintln(w, g.calmed.Load(), g.other.Load(), g.begun.Load(), open)
		return
	case "/upload":
		g.begun.Add(1)
	case "/write":
		g.begun.Add(1)
		for piece := make([]byte, 4<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	_, _ = io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}

func (g *targetHandler) countError(what string) {
	switch {
	case what == "conn_ENHANCE_YOUR_CALM":
		g.calmed.Add(1)
	case strings.HasPrefix(what, "conn_"):
		g.other.Add(1)
	}
}

type targetSite struct {
	*http2Site
	address string
	pid     int
	before  int // its memory before the attack, in bytes
}

// newTarget starts the target of a maker. In the slow form it is a process of its own, whose memory
// is the server's.
func newTarget(t *testing.T, maker, mode string) *targetSite {
	if !testkit.Slow() {
		return serveTarget(t, maker, mode)
	}
	g := new(targetSite)
	line, _ := play(t, "TestHTTP2Target", mode+" "+maker)
	testkit.Value(fmt.Sscan(line, &g.pid, &g.address))(t)
	g.http2Site = newHTTP2Client(t, mode, dialer(g.address))
	t.Cleanup(g.client.CloseIdleConnections)
	g.get("/")
	g.before = g.resident("VmRSS")
	return g
}

func serveTarget(t *testing.T, maker, mode string) *targetSite {
	g := new(targetHandler)
	set := &http.Server{Handler: g, HTTP2: &http.HTTP2Config{CountError: g.countError}}
	if testkit.Slow() { // so many attackers may take longer than the default to send a head
		set.ReadHeaderTimeout = time.Hour
	}
	s := newHTTP2Site(t, maker, mode, set)
	g.server.Store(s.server)
	s.tickets = tls.NewLRUClientSessionCache(1)
	return &targetSite{http2Site: s, address: s.address().String(), pid: os.Getpid()}
}

func (s *http2Site) address() net.Addr {
	s.Helper()
	c := testkit.Value(s.site.dial())(s)
	defer c.Close()
	return c.RemoteAddr()
}

// attackFormat is the format of the arguments of attackers: mode, address, class, number, and for
// how long.
const attackFormat = "%s %s %q %d %d"

func TestHTTP2Target(t *testing.T) {
	mode, maker, _ := strings.Cut(roleArguments(t), " ")
	s := serveTarget(t, maker, mode)
	fmt.Println(s.pid, s.address)
	io.Copy(io.Discard, os.Stdin) // until the other process has measured
}

func TestHTTP2Attackers(t *testing.T) {
	var mode, address, class string
	var n int
	var limit time.Duration
	testkit.Value(fmt.Sscanf(roleArguments(t), attackFormat, &mode, &address, &class, &n, &limit))(t)
	content := http2Floods()[class].content(t)
	s := newHTTP2Client(t, mode, dialer(address))
	fmt.Println("attacking")
	err := s.flood(content, n, limit)
	fmt.Println("ended:", err)
}

func dialer(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", address) }
}

func (s *targetSite) state() (all targetState) {
	s.Helper()
	testkit.Value(fmt.Sscan(s.get("/state"), &all.calmed, &all.other, &all.begun, &all.open))(s)
	return all
}

// resident returns a value of /proc/PID/status in bytes.
func (s *targetSite) resident(key string) int {
	s.Helper()
	text := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid)))(s)
	_, value, _ := strings.Cut(string(text), key+":")
	return testkit.Value(strconv.Atoi(strings.Fields(value)[0]))(s) << 10
}

// wantMemory fails the test if the target's process has grown by more than a constant and some
// bytes for each of n connections. The constant is mostly garbage.
func (s *targetSite) wantMemory(n, each int) {
	s.Helper()
	const constant, raceFactor = 64 << 20, 5
	limit := constant + n*each
	if testkit.Race {
		limit *= raceFactor
	}
	grown := s.resident("VmHWM") - s.before
	s.Logf("%d connections take %d MB, %d KB each", n, grown>>20, grown>>10/n)
	testkit.Between(s, max(0, grown)>>20, 0, limit>>20, "MB of", n, "connections")
}

// attack floods the target with the frames of a class by n attackers, as flood does. Meanwhile
// another client must receive responses. attack returns the 99th percentile of their durations. In
// the slow form, where the attackers are another process, it does not use content.
func (s *targetSite) attack(class string, content *floodContent, n int, limit time.Duration) time.Duration {
	s.Helper()
	over := make(chan error)
	if testkit.Slow() {
		_, output := play(s.T, "TestHTTP2Attackers", fmt.Sprintf(attackFormat, s.mode, s.address, class, n, limit))
		go func() {
			line, err := output.ReadString('\n')
			if line != "ended: <nil>\n" {
				err = errors.New(line)
			}
			over <- err
		}()
	} else {
		go func() { over <- s.flood(content, n, limit) }()
	}
	var durations []time.Duration
	for {
		begun := time.Now()
		testkit.Equal(s, s.get("/"), "hello", "another client has received")
		durations = append(durations, time.Since(begun))
		select {
		case err := <-over:
			testkit.Check(s, err)
			slices.Sort(durations)
			return durations[len(durations)*99/100]
		default:
		}
	}
}

// flood sends content over n connections at the same time, until the server has ended them. If
// there is a limit of time, new connections follow until it is over.
func (s *http2Site) flood(content *floodContent, n int, limit time.Duration) error {
	ctx := s.Context()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	failed := make(chan error, n)
	var attackers sync.WaitGroup
	for range n {
		attackers.Go(func() {
			for isFirst := true; isFirst || limit > 0 && ctx.Err() == nil; isFirst = false {
				if err := s.floodOne(ctx, content); err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	attackers.Wait()
	close(failed)
	return <-failed
}

// floodOne sends content over a connection and waits until it has ended.
func (s *http2Site) floodOne(ctx context.Context, content *floodContent) error {
	piece := content.after(0) // before timeouts of the server begin
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Time{}) // ctx has one
	defer context.AfterFunc(ctx, func() { c.Close() })()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	for sent := 0; err == nil && len(piece) > 0; piece = content.after(sent) {
		_, err = c.Write(piece)
		sent += len(piece)
	}
	<-ended
	return nil
}
