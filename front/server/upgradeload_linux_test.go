package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// load starts clients of all kinds. The requests of one of them do not appear in the access log.
func (s *site) load() (all *upgrades.Load, websocket *tunnel) {
	all = s.Load()
	for n, path := range []string{"/", "/fcgi"} {
		for i, c := range []upgrades.Client{
			&upgrades.RawClient{Network: "tcp", Address: s.host + ":8000"},
			&upgrades.RawClient{Network: "tcp", Address: s.host + ":8001", Once: true},
			&upgrades.RawClient{Network: "unix", Address: s.Path("socket")},
			&upgrades.HTTP2Client{Address: s.host + ":8443"},
			&http3Client{address: s.host + ":8443", canceled: &s.canceled},
			&http3Client{address: s.host + ":8443", canceled: &s.canceled, once: true},
		} {
			all.Add(c, fmt.Sprintf("%s?%d.%d.", path, i, n), "text ")
		}
	}
	websocket = &tunnel{address: s.host + ":8000"}
	all.Add(websocket, "/websocket", "text ")
	return all, websocket
}

// http3Client sends POST requests over HTTP/3. It repeats those that the server reports as not
// accepted, and, with another target, those that quic-go cancels: if GOAWAY arrives just when a
// request begins, its client closes the connection.
type http3Client struct {
	address   string
	once      bool          // a new connection for each request
	canceled  *atomic.Int64 // counts the requests that quic-go cancels
	transport *http3.Transport
}

func (h *http3Client) Close() {
	if h.transport != nil {
		h.transport.Close()
		h.transport = nil
	}
}

func (h *http3Client) Request(uri, text string) (pid string, err error) {
	if h.transport == nil {
		h.transport = &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	if h.once {
		defer h.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upgrades.Patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+h.address+uri, strings.NewReader(text))
		if err != nil {
			return "", err
		}
		resp, err := h.transport.RoundTrip(req)
		// The Transport repeats a rejected request once. It may cross two upgrades.
		switch e, ok := errors.AsType[*http3.Error](err); {
		case ok && e.ErrorCode == http3.ErrCodeRequestRejected:
			continue
		case ok && !e.Remote && e.ErrorCode == http3.ErrCodeNoError:
			h.canceled.Add(1)
			uri += "."
			continue
		case err != nil:
			return "", err
		}
		if resp.ProtoMajor != 3 {
			resp.Body.Close()
			return "", fmt.Errorf("%s", resp.Proto)
		}
		return upgrades.CheckEcho(resp, text)
	}
}

// tunnel is a client of a websocket. Each request is a line; a connection has tunnelLines of them.
type tunnel struct {
	address  string
	requests atomic.Int64
	c        net.Conn
	in       *bufio.Reader
}

const tunnelLines = 100

func (w *tunnel) Close() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

func (w *tunnel) Request(uri, text string) (pid string, err error) {
	if w.c == nil {
		if err := w.open(uri); err != nil {
			return "", err
		}
	}
	if err := w.c.SetDeadline(time.Now().Add(upgrades.Patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(w.c, text); err != nil {
		return "", err
	}
	if line, err := w.in.ReadString('\n'); err != nil || line != text+"\n" {
		return "", fmt.Errorf("%q, %w", line, err)
	}
	if w.requests.Add(1)%tunnelLines == 0 {
		w.Close()
	}
	return "", nil
}

func (w *tunnel) open(uri string) (err error) {
	if w.c, err = net.Dial("tcp", w.address); err != nil {
		return err
	}
	w.in = bufio.NewReader(w.c)
	fmt.Fprintf(w.c, "GET %s HTTP/1.1\r\nHost: host\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n", uri)
	resp, err := http.ReadResponse(w.in, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s", resp.Status)
	}
	return err
}
