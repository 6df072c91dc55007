package dns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// tryTime is how long a query waits for a server before it goes to the next one. It doubles
	// with each round of all servers, up to maxTryTime.
	tryTime    = time.Second
	maxTryTime = 5 * time.Second
	// maxPacket is the maximum length of a response over UDP that queries allow without EDNS0
	// (RFC 1035, 4.2.1). A buffer is larger, for servers that ignore that.
	maxPacket = 4096
	// maxStray is the number of other packets after which a query stops waiting for a server.
	maxStray = 1000
	// maxRecords limits the records of a response that are read.
	maxRecords = 4096
)

// message is a response, as far as it matters.
type message struct {
	isTruncated bool
	code        dnsmessage.RCode
	records     []dnsmessage.Resource // of the answer section
}

// rcodeError is a response with an error.
type rcodeError struct {
	server netip.AddrPort
	code   dnsmessage.RCode
}

func (e *rcodeError) Error() string {
	return fmt.Sprintf("DNS server %v responded %v", e.server, e.code)
}

// query sends a question to one server after another until one of them responds with records, or
// reports that there are none.
func (r *Resolver) query(ctx context.Context, q dnsmessage.Question) (*message, error) {
	var last error
	for wait := tryTime; ; wait = min(2*wait, maxTryTime) {
		failed := 0
		for _, server := range r.config.Servers {
			began := time.Now()
			m, err := exchange(ctx, server, q, wait)
			if err == nil {
				return m, nil
			}
			if last = err; ctx.Err() != nil {
				return nil, fmt.Errorf("%w (last error: %w)", ctx.Err(), last)
			}
			if time.Since(began) < wait/2 {
				failed++ // at once: not by silence
			}
		}
		if failed == len(r.config.Servers) {
			return nil, last
		}
	}
}

// exchange sends a question to one server: over UDP, and over TCP if the response is truncated.
func exchange(ctx context.Context, server netip.AddrPort, q dnsmessage.Question, wait time.Duration) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := exchangeOver(ctx, "udp", server, q)
	if err == nil && m.isTruncated {
		m, err = exchangeOver(ctx, "tcp", server, q)
		if err == nil && m.isTruncated { // its records are unknown, which does not mean that there are none
			err = errors.New("the response over TCP is truncated")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("DNS server %v: %w", server, err)
	}
	if m.code != dnsmessage.RCodeSuccess && m.code != dnsmessage.RCodeNameError { // which has no records
		return nil, &rcodeError{server, m.code}
	}
	return m, nil
}

// exchangeOver sends a question over one connection and waits for the response.
func exchangeOver(ctx context.Context, network string, server netip.AddrPort, q dnsmessage.Question) (*message, error) {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails
	request := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: binary.BigEndian.Uint16(id[:]), RecursionDesired: true},
		Questions: []dnsmessage.Question{q},
	}
	packet := make([]byte, 2, 512)
	packet, err := request.AppendPack(packet)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(packet, uint16(len(packet)-2)) //nolint:gosec // a question is short
	// A connected socket receives packets of the server's address only.
	nc, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "udp" {
		packet = packet[2:]
	}
	if _, err := nc.Write(packet); err != nil {
		return nil, err
	}
	buffer := make([]byte, maxPacket)
	for range maxStray {
		received, err := receive(nc, network, buffer)
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, err
		}
		if m := parse(received, request.ID, &q); m != nil {
			return m, nil
		}
		if network == "tcp" {
			break
		}
	}
	return nil, errors.New("no valid response")
}

// receive reads a packet, or a message of a stream, whose length precedes it.
func receive(nc net.Conn, network string, buffer []byte) ([]byte, error) {
	if network == "udp" {
		n, err := nc.Read(buffer)
		return buffer[:n], err
	}
	var length [2]byte
	if _, err := io.ReadFull(nc, length[:]); err != nil {
		return nil, err
	}
	buffer = make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(nc, buffer)
	return buffer, err
}

// parse returns the response to a question, or nil if a packet is something else. Only the sections
// that matter are read.
func parse(packet []byte, id uint16, q *dnsmessage.Question) *message {
	var p dnsmessage.Parser
	h, err := p.Start(packet)
	if err != nil || h.ID != id || !h.Response {
		return nil
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 || questions[0].Type != q.Type || questions[0].Class != q.Class ||
		!equalNames(questions[0].Name, q.Name) {
		return nil
	}
	m := &message{isTruncated: h.Truncated, code: h.RCode}
	if h.Truncated || h.RCode != dnsmessage.RCodeSuccess {
		return m
	}
	for range maxRecords {
		record, err := p.Answer()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return m
		}
		if err != nil {
			return nil
		}
		m.records = append(m.records, record)
	}
	return m
}

// addresses returns the addresses of a type that a name has, at the end of its chain of CNAME
// records, the last name of the chain, and the least TTL.
func (m *message) addresses(name dnsmessage.Name, typ dnsmessage.Type) (all []netip.Addr, last dnsmessage.Name,
	ttl time.Duration) {
	ttl, last = maxValid, name
	for range maxChain {
		next, found := last, false
		for i := range m.records {
			record := &m.records[i]
			if !equalNames(record.Header.Name, last) || record.Header.Class != dnsmessage.ClassINET {
				continue
			}
			switch body := record.Body.(type) {
			case *dnsmessage.AResource:
				if typ == dnsmessage.TypeA {
					all = append(all, netip.AddrFrom4(body.A))
				}
			case *dnsmessage.AAAAResource:
				if typ == dnsmessage.TypeAAAA {
					all = append(all, netip.AddrFrom16(body.AAAA))
				}
			case *dnsmessage.CNAMEResource:
				next, found = body.CNAME, true
			default:
				continue
			}
			ttl = min(ttl, ttlOf(record))
		}
		if len(all) > 0 || !found {
			return all, last, ttl
		}
		last = next
	}
	return nil, last, ttl
}

// ttlOf returns the TTL of a record. One with the highest bit set is 0 (RFC 2181, 8).
func ttlOf(r *dnsmessage.Resource) time.Duration {
	if r.Header.TTL>>31 != 0 {
		return 0
	}
	return time.Duration(r.Header.TTL) * time.Second
}
