package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

const (
	// tripTime is how long round trips are measured.
	tripTime = 300 * time.Millisecond
	// bulkTime is how long the bandwidth of a direction is measured.
	bulkTime = 500 * time.Millisecond
	// bulkWarmup is the time in which TCP finds the bandwidth, and is not measured.
	bulkWarmup = 200 * time.Millisecond
	// bulkSize is the number of bytes of a body that measures the bandwidth.
	bulkSize = 256 << 10
	// bulkConnections carry such bodies at once.
	bulkConnections = 4
	// linkTimeout limits a request that measures the link.
	linkTimeout = 10 * time.Second
)

// Link measures the network between the generator and this machine with requests to a server of its
// own, as the trials use it.
func (g *Generator) Link(ctx context.Context) (*sample.Link, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(g.Address, "0"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(serveLink), ReadHeaderTimeout: linkTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until Close
	}()
	defer func() {
		_ = server.Close()
		<-done
	}()
	url := "http://" + l.Addr().String()
	link := &sample.Link{Host: g.Host, Address: g.Address}
	trips, err := g.slice(ctx, load.Plan{URL: url + "/", Connections: 1}, tripTime)
	if err != nil {
		return nil, err
	}
	link.RoundTrip, link.ShortestTrip = trips.Service.Quantile(0.5), trips.Service.Quantile(0)
	down, err := g.slice(ctx, load.Plan{URL: url + "/bulk", Connections: bulkConnections}, bulkTime)
	if err != nil {
		return nil, err
	}
	link.FromServers = float64(down.Bytes) / down.Seconds
	up, err := g.slice(ctx, load.Plan{URL: url + "/", Method: http.MethodPost, Body: strings.Repeat("a", bulkSize),
		Connections: bulkConnections}, bulkTime)
	if err != nil {
		return nil, err
	}
	link.ToServers = float64(up.SentBytes) / up.Seconds
	return link, nil
}

func (g *Generator) slice(ctx context.Context, p load.Plan, d time.Duration) (*load.Result, error) {
	p.Timeout = linkTimeout
	s, err := g.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	_, err = s.Slice(ctx, bulkWarmup, false)
	if err == nil {
		_, err = s.Slice(ctx, d, true)
	}
	r := s.Close()
	if err == nil && r.Requests == 0 {
		err = &load.ConnectError{URL: p.URL, First: r.Errors.First}
	}
	return r, err
}

// serveLink reads what the client sends and responds with a small or a large body.
func serveLink(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/bulk" {
		_, _ = io.WriteString(w, strings.Repeat("a", bulkSize))
	}
}
