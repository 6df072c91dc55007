package fetch

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/client"
)

// maxStderr bounds the text of one report about an application's STDERR.
const maxStderr = 2 << 10

var _ client.Hooks = (*attempt)(nil)

// Dial implements client.Hooks: it opens a connection, and makes the TLS handshake, each within
// ConnectTimeout.
func (a *attempt) Dial(ctx context.Context) (net.Conn, error) {
	r, network := a.request, "tcp"
	d := net.Dialer{Timeout: r.upstream.ConnectTimeout}
	if a.call.Addr[0] == '/' {
		network = "unix"
	} else if r.Local.IsValid() {
		d.LocalAddr, d.Control = net.TCPAddrFromAddrPort(r.Local), bindLate(r.Local)
	}
	a.waitingSince.Store(-1)
	defer a.startWait()
	began := time.Now()
	nc, err := d.DialContext(ctx, network, a.call.Addr)
	if err == nil && r.Transport.tls != nil {
		nc, err = r.Transport.handshake(ctx, nc, r.upstream.ConnectTimeout)
	}
	if err == nil {
		a.update(func(s *Record) { s.ConnectTime = time.Since(began) })
	}
	return nc, err
}

// Interim implements client.Hooks.
func (a *attempt) Interim(status int, h http.Header) {
	a.restartWait()
	if o := a.request.Observer; o != nil {
		o.Interim(status, h)
	}
}

// Ended implements client.Hooks.
func (a *attempt) Ended(sent, received int64) {
	a.update(func(s *Record) {
		s.BytesSent += sent
		s.BytesReceived += received
	})
}

// Stderr implements client.Hooks: it reports what an application writes to STDERR.
func (a *attempt) Stderr(text []byte) {
	a.restartWait() // as in nginx a server that writes is not silent
	r := a.request
	if texts := r.upstream.CatchStderr; len(texts) > 0 {
		if a.stderr == nil {
			a.stderr = new(stderrSearch)
		}
		a.stderr.add(text, texts)
	}
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		r.reportFailure(a.call.Addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
	}
}

// stderrSearch looks for the texts of Upstream.CatchStderr in what an application writes.
type stderrSearch struct {
	caught string // what was found; "" without
	end    []byte // of the earlier pieces: a text may begin there
}

// add looks for texts in a piece.
func (s *stderrSearch) add(piece []byte, texts []string) {
	all, longest := append(s.end, piece...), 1
	for _, text := range texts {
		longest = max(longest, len(text))
		if bytes.Contains(all, []byte(text)) {
			s.caught = text
		}
	}
	s.end = bytes.Clone(all[max(len(all)-longest+1, 0):])
}
