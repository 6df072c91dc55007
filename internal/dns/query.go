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
	"sync"
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

type rcodeError dnsmessage.RCode

func (e rcodeError) Error() string { return fmt.Sprintf("responded %v", dnsmessage.RCode(e)) }

// result is what a conversation with the server of an index has ended with.
type result struct {
	server  int
	message *message
	err     error
}

// inquiry is a question, and the conversations with the servers that it was sent to. As in nginx, a
// response is valid until the lookup ends, also if it arrives when another server was queried.
type inquiry struct {
	servers       []netip.AddrPort
	question      dnsmessage.Question
	conversations []*conversation // by server; nil for servers that are not queried
	results       chan result
	running       sync.WaitGroup
}

// query sends a question to one server after another until one of them responds with records, or
// reports that there are none.
func (r *Resolver) query(ctx context.Context, q dnsmessage.Question) (*message, error) {
	servers := r.config.Servers
	i := &inquiry{servers: servers, question: q, conversations: make([]*conversation, len(servers)),
		results: make(chan result, len(servers))}
	defer i.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last error
	for wait := tryTime; ; wait = min(2*wait, maxTryTime) {
		failed := 0
		for server := range servers {
			began := time.Now()
			i.send(ctx, server)
			m, err := i.await(ctx, server, wait)
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
		if failed == len(servers) {
			return nil, last
		}
	}
}

// send sends the question to a server, again if it was sent before.
func (i *inquiry) send(ctx context.Context, server int) {
	if c := i.conversations[server]; c != nil {
		_, _ = c.udp.Write(c.packet) // as good as lost, if it fails
		return
	}
	c, err := newConversation(ctx, i.servers[server], i.question)
	if err != nil {
		i.results <- result{server: server, err: err}
		return
	}
	i.conversations[server] = c
	i.running.Go(func() {
		m, err := c.receive(ctx)
		i.results <- result{server, m, err}
	})
}

// await waits for a response of any server, or until the question must be sent to the next one.
func (i *inquiry) await(ctx context.Context, server int, wait time.Duration) (*message, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case found := <-i.results:
			i.conversations[found.server] = nil
			switch {
			case found.err == nil:
				return found.message, nil
			case found.server == server:
				return nil, serverError(i.servers[server], found.err)
			}
		case <-ctx.Done():
			return nil, serverError(i.servers[server], ctx.Err())
		case <-timer.C:
			return nil, serverError(i.servers[server], context.DeadlineExceeded)
		}
	}
}

func serverError(server netip.AddrPort, err error) error {
	return fmt.Errorf("DNS server %v: %w", server, err)
}

// conversation is a question to one server over UDP, which may be sent several times.
type conversation struct {
	server   netip.AddrPort
	question dnsmessage.Question
	udp      net.Conn // connected: it receives packets of the server's address only
	id       uint16
	packet   []byte
}

// newConversation sends a question to a server.
func newConversation(ctx context.Context, server netip.AddrPort, q dnsmessage.Question) (*conversation, error) {
	c := &conversation{server: server, question: q}
	var err error
	if c.packet, c.id, err = newRequest(q); err != nil {
		return nil, err
	}
	c.packet = c.packet[2:]
	if c.udp, err = new(net.Dialer).DialContext(ctx, "udp", server.String()); err != nil {
		return nil, err
	}
	if _, err = c.udp.Write(c.packet); err != nil {
		c.udp.Close()
		return nil, err
	}
	return c, nil
}

// receive waits for the response, and requests it over TCP if it is truncated.
func (c *conversation) receive(ctx context.Context) (*message, error) {
	m, err := receiveOver(ctx, c.udp, "udp", c.id, &c.question)
	if err == nil && m.isTruncated {
		m, err = c.exchangeOverTCP(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case m.code != dnsmessage.RCodeSuccess && m.code != dnsmessage.RCodeNameError: // a missing name has no records
		return nil, rcodeError(m.code)
	}
	return m, nil
}

func (c *conversation) exchangeOverTCP(ctx context.Context) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTryTime)
	defer cancel()
	packet, id, err := newRequest(c.question)
	if err != nil {
		return nil, err
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", c.server.String())
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(packet); err != nil {
		nc.Close()
		return nil, err
	}
	m, err := receiveOver(ctx, nc, "tcp", id, &c.question)
	if err == nil && m.isTruncated { // unknown records are not missing ones
		err = errors.New("the response over TCP is truncated")
	}
	return m, err
}

// newRequest returns a message with a question, preceded by its length, and its random identifier.
func newRequest(q dnsmessage.Question) (packet []byte, id uint16, err error) {
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails
	request := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: binary.BigEndian.Uint16(random[:]), RecursionDesired: true},
		Questions: []dnsmessage.Question{q},
	}
	if packet, err = request.AppendPack(make([]byte, 2, 512)); err != nil {
		return nil, 0, err
	}
	binary.BigEndian.PutUint16(packet, uint16(len(packet)-2)) //nolint:gosec // a question is short
	return packet, request.ID, nil
}

// receiveOver waits for the response to a question, and closes the connection.
func receiveOver(ctx context.Context, nc net.Conn, network string, id uint16,
	q *dnsmessage.Question) (*message, error) {
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, maxPacket)
	for range maxStray {
		received, err := receive(nc, network, buffer)
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, err
		}
		if m := parse(received, id, q); m != nil {
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
