package events

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
)

// clients send the requests of one group. A client takes an idle connection of the group, or opens
// one, sends a request and reads the response. It never sends a request twice, so that each request
// has one outcome.
type clients struct {
	group   *sample.Group
	address string
	timeout time.Duration
	started time.Time
	count   func(sample.Request)

	mu   sync.Mutex  // guards idle
	idle []*keptConn // the one that was used last is at the end
}

type keptConn struct {
	net.Conn
	in *bufio.Reader
}

const postBody = "name=value"

// run sends requests at the group's rate until a time after the start, and waits for all outcomes.
func (c *clients) run(ctx context.Context, length time.Duration) {
	var sent sync.WaitGroup
	defer func() {
		sent.Wait()
		for _, conn := range c.idle {
			conn.Close()
		}
	}()
	for n := 0; ; n++ {
		after := float64(n) / c.group.Rate
		if after >= length.Seconds() {
			return
		}
		due := time.Duration(after * float64(time.Second))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(c.started.Add(due))):
		}
		sent.Go(func() { c.request(due) })
	}
}

// request sends one request and counts its outcome. The time begins when the request was due.
func (c *clients) request(due time.Duration) {
	r := sample.Request{Due: due, Late: time.Since(c.started) - due}
	r.Outcome = c.exchange(c.started.Add(due).Add(c.timeout))
	r.Took = time.Since(c.started) - due
	c.count(r)
}

func (c *clients) exchange(deadline time.Time) sample.Outcome {
	conn, err := c.connect(deadline)
	if err != nil {
		return outcomeOf(err, sample.Refused)
	}
	_ = conn.SetDeadline(deadline)
	if err := c.send(conn); err != nil {
		conn.Close()
		return outcomeOf(err, sample.Closed)
	}
	resp, err := http.ReadResponse(conn.in, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	switch {
	case err != nil:
		conn.Close()
		return outcomeOf(err, sample.Closed)
	case resp.Close || c.group.Fresh:
		conn.Close()
	default:
		c.mu.Lock()
		c.idle = append(c.idle, conn)
		c.mu.Unlock()
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return sample.Status
	}
	return sample.Response
}

// outcomeOf returns Timeout if err is that of a deadline, or else otherwise.
func outcomeOf(err error, otherwise sample.Outcome) sample.Outcome {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return sample.Timeout
	}
	return otherwise
}

func (c *clients) connect(deadline time.Time) (*keptConn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.Dial("tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &keptConn{conn, bufio.NewReader(conn)}, nil
}

func (c *clients) send(out io.Writer) error {
	fields, body := "", ""
	if c.group.Fresh {
		fields = "Connection: close\r\n"
	}
	if c.group.Method == http.MethodPost {
		body = postBody
		fields += fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(body))
	}
	_, err := fmt.Fprintf(out, "%s / HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", c.group.Method, fields, body)
	return err
}
