// Command streams serves responses that do not end: server-sent events, gRPC messages, and
// websockets that echo. Each event has the monotonic time at which it was written.
package main

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/upgrade"
)

const (
	// floodBytes is the size of each write of a stream that nobody reads.
	floodBytes = 16 << 10
	// keySuffix is appended to the client's key (RFC 6455, 4.2.2).
	keySuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

func main() {
	log.SetFlags(0)
	address := flag.String("listen", "", "address to listen on")
	isTare := flag.Bool("tare", false, "serve with tare in place of net/http")
	conf := flag.String("conf", "", "nginx.conf whose upstream, application, is the handler in this process")
	flag.Parse()
	if *conf != "" {
		log.Fatal(server.Run(context.Background(), server.File{Path: *conf},
			server.Options{Upgrade: &upgrade.Options{}}, server.Bind("application", http.HandlerFunc(stream))))
	}
	log.Fatal(run(*address, *isTare))
}

// run serves HTTP/1.1, and HTTP/2 without TLS, until the process is replaced.
func run(address string, isTare bool) error {
	u, err := upgrade.New(upgrade.Options{})
	if err != nil {
		return err
	}
	l, err := u.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: u.Handler(http.HandlerFunc(stream)), Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if isTare {
		u.Serve(tare.Wrap(s), l)
	} else {
		u.Serve(s, l)
	}
	return u.Run(context.Background())
}

// stream sends an event at once, and then burst events every so often, with a flush after each.
func stream(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "websocket" {
		echo(w, r)
		return
	}
	appendEvent := appendSSE
	w.Header().Set("Content-Type", "text/event-stream")
	if kind := r.Header.Get("Content-Type"); strings.HasPrefix(kind, "application/grpc") {
		appendEvent = appendGRPC
		w.Header().Set("Content-Type", kind)
	}
	if r.URL.Path == "/flood" {
		appendEvent = func([]byte) []byte { return make([]byte, floodBytes) }
	}
	every, err := time.ParseDuration(r.URL.Query().Get("every"))
	burst, burstErr := strconv.Atoi(r.URL.Query().Get("burst"))
	if err != nil || burstErr != nil || every <= 0 {
		http.Error(w, "want every, a time, and burst, a number", http.StatusBadRequest)
		return
	}
	out, event := http.NewResponseController(w), []byte(nil)
	next := time.NewTimer(rand.N(every))
	defer next.Stop()
	for n := 1; ; n = burst {
		for range n {
			event = appendEvent(event[:0])
			if _, err := w.Write(event); err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-next.C:
			next.Reset(every)
		case <-r.Context().Done():
			return
		}
	}
}

// now returns the time of the machine's monotonic clock, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}

func appendSSE(b []byte) []byte { return fmt.Appendf(b, "data: %020d\n\n", now()) }

// appendGRPC appends a message that is not compressed, after its length.
func appendGRPC(b []byte) []byte { return fmt.Appendf(b, "\x00\x00\x00\x00\x14%020d", now()) }

// echo sends the text frames of a websocket back, of up to 125 bytes each (RFC 6455, 5.2).
func echo(w http.ResponseWriter, r *http.Request) {
	accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + keySuffix))
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(accept[:]))
	const (
		text    = 0x81 // a whole text message
		isMask  = 0x80
		longest = 125
	)
	var frame [2 + 4 + longest]byte // head, mask, payload
	for err == nil {
		if _, err = io.ReadFull(buffered, frame[:6]); err != nil || frame[0] != text {
			return
		}
		n := int(frame[1] &^ isMask)
		if n > longest || frame[1]&isMask == 0 {
			return
		}
		if _, err = io.ReadFull(buffered, frame[6:6+n]); err != nil {
			return
		}
		for i := range n {
			frame[6+i] ^= frame[2+i%4]
		}
		frame[4], frame[5] = text, byte(n) // a server does not mask
		_, err = conn.Write(frame[4 : 6+n])
	}
}
