// Command faults serves the application, with one fault or none. It tests the lab's explanations:
// an explanation must name this fault and no other.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/application"
)

// server is the handler with its fault.
type server struct {
	body   []byte
	pieces int      // writes of a response
	log    *os.File // receives a line for each request
	alloc  int      // bytes of memory for each request
	work   int      // KB to hash for each request
	lock   *sync.Mutex
	closes bool // closes the connection after each response
}

func main() {
	log.SetFlags(0)
	s := &server{}
	size := flag.Int("body", len(application.Body), "bytes of body")
	flag.IntVar(&s.pieces, "pieces", 1, "writes of a response")
	flag.IntVar(&s.alloc, "alloc", 0, "bytes of memory to allocate for each request")
	flag.IntVar(&s.work, "work", 0, "KB to hash for each request")
	flag.BoolVar(&s.closes, "close", false, "close connections after a response")
	delay := flag.Bool("delay", false, "leave Nagle's algorithm on")
	name := flag.String("log", "", "file that receives a line for each request")
	lock := flag.Bool("lock", false, "do the work of one request at a time")
	procs := flag.Int("procs", 0, "GOMAXPROCS; 0 is the environment's")
	site, err := application.FromFlags(flag.CommandLine, os.Args[1:])
	if err == nil && *name != "" {
		s.log, err = os.OpenFile(*name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
	s.body = bytes.Repeat([]byte(application.Body), *size/len(application.Body))
	if *lock {
		s.lock = new(sync.Mutex)
	}
	if *procs > 0 {
		runtime.GOMAXPROCS(*procs)
	}
	l := site.Listener
	if *delay {
		l = delaying{l}
	}
	log.Fatal(http.Serve(l, s))
}

// delaying is a listener whose connections use Nagle's algorithm, which Go disables.
type delaying struct{ net.Listener }

func (d delaying) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetNoDelay(false)
	}
	return c, err
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "gophr")
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
	if s.closes {
		w.Header().Set("Connection", "close")
	}
	s.prepare()
	for i := range s.pieces {
		if i > 0 {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(s.body[i*len(s.body)/s.pieces : (i+1)*len(s.body)/s.pieces])
	}
	if s.log != nil {
		line := make([]byte, 0, 128)
		line = append(line, r.RemoteAddr...)
		line = time.Now().AppendFormat(append(line, ' '), time.RFC3339)
		line = append(append(append(append(line, ' '), r.Method...), ' '), r.URL.Path...)
		_, _ = s.log.Write(append(line, " 200\n"...))
	}
}

// prepare does the work of a request before its response.
func (s *server) prepare() {
	memory := make([]byte, s.alloc)
	runtime.KeepAlive(memory)
	s.hash()
}

func (s *server) hash() {
	if s.work == 0 {
		return
	}
	if s.lock != nil {
		s.lock.Lock()
		defer s.lock.Unlock()
	}
	var block [1024]byte
	h := sha256.New()
	for range s.work {
		_, _ = h.Write(block[:])
	}
	h.Sum(block[:0])
}
