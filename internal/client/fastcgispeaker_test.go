package client

import (
	"fmt"
	"net"
	"net/http"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// newFastCGIOf returns a Client that sends the method and the fields of a request.
func newFastCGIOf(config *Config) *Client {
	return NewFastCGI(config, &FastCGI{Describe: func(p *Params, r *http.Request, _ int64) error {
		p.Set("REQUEST_METHOD", r.Method)
		for name, values := range r.Header {
			if err := p.SetField(name, values); err != nil {
				return err
			}
		}
		return nil
	}})
}

// fastcgiSpeaker is a speaker of FastCGI.
type fastcgiSpeaker struct {
	net.Conn
	records  wire.Reader
	from, to int
	in       [64 << 10]byte
}

func newFastCGISpeaker(nc net.Conn) speaker { return &fastcgiSpeaker{Conn: nc} }

// next returns the next piece of a record, or false at the end of the connection.
func (s *fastcgiSpeaker) next() (wire.Piece, bool) {
	for {
		piece, n, err := s.records.Next(s.in[s.from:s.to])
		s.from += n
		if err != nil || piece.Type != 0 {
			return piece, err == nil && piece.Type != wire.AbortRequest
		}
		s.to = copy(s.in[:], s.in[s.from:s.to])
		s.from = 0
		if n, err = s.Read(s.in[s.to:]); n == 0 || err != nil {
			return wire.Piece{}, false
		}
		s.to += n
	}
}

func (s *fastcgiSpeaker) head() (id string, ok bool) {
	var list []byte
	for {
		piece, ok := s.next()
		switch {
		case !ok:
			return "", false
		case piece.Type == wire.Params && piece.Ends():
			for at := 0; at < len(list); {
				pair, next, err := wire.NextPair(list, at)
				if err != nil {
					return "", false
				}
				if string(pair.Name.In(list)) == "HTTP_X_ID" {
					id = string(pair.Value.In(list))
				}
				at = next
			}
			return id, true
		case piece.Type == wire.Params:
			list = append(list, piece.Content...)
		}
	}
}

func (s *fastcgiSpeaker) part() (text string, ok bool) {
	piece, ok := s.next()
	return string(piece.Content), ok && piece.Type == wire.Stdin
}

func (s *fastcgiSpeaker) begin() { s.send("Status: 200\n\n") }

func (s *fastcgiSpeaker) send(text string) {
	_, _ = s.Write(wire.AppendStream(nil, wire.Stdout, 1, []byte(text)))
}

func (s *fastcgiSpeaker) end() {
	_, _ = s.Write(wire.AppendEnd(wire.AppendStreamEnd(nil, wire.Stdout, 1), 1, wire.End{}))
}

func (s *fastcgiSpeaker) respond(text string) {
	b := wire.AppendStream(nil, wire.Stdout, 1, fmt.Appendf(nil, "Content-Length: %d\n\n%s", len(text), text))
	_, _ = s.Write(wire.AppendEnd(b, 1, wire.End{}))
}
