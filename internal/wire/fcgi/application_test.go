package fcgi

import (
	"fmt"
	"strings"
	"testing"
)

// An application reads a connection's requests as a server does. It keeps the input of a request
// until it is ready, then reads the body, and then the next request.
type application struct {
	testing.TB
	limit int
	small bool // drops what need not be kept, and reads most of a body past the Reader
	once  bool // stops after a request that does not keep the connection
	last  bool // such a request has been read

	request Request
	b       []byte // the input since the request began or, of its body, the unconsumed input
	at      int    // offset of b in the input
	open    *exchange
	inBody  bool // the record whose content is Left is the body's
	all     []*exchange
	counts  map[Event]int
	log     strings.Builder
	err     error // what ended it
}

// An exchange is a request that was ready.
type exchange struct {
	id     uint16
	keep   bool
	list   []byte // of parameters
	pieces int    // of the list
	body   []byte
	end    string // how its body ended
}

func (x *exchange) String() string {
	return fmt.Sprintf("%d keep=%v in %d %s body %q %s", x.id, x.keep, x.pieces, pairs(x.list), x.body, x.end)
}

// pairs describes a list of parameters up to its first fault.
func pairs(list []byte) string {
	var all []string
	for at := 0; at < len(list); {
		p, next, err := NextPair(list, at)
		if err != nil {
			all = append(all, describe(err, 0))
			break
		}
		at = next
		all = append(all, fmt.Sprintf("%s=%s", p.Name.In(list), p.Value.In(list)))
	}
	return fmt.Sprintf("%q", all)
}

// receive processes a piece and reports whether there is more to read.
func (a *application) receive(piece []byte) bool {
	a.b = extend(a.b, piece)
	for {
		step := a.readRequest
		if a.open != nil {
			step = a.readBody
		}
		switch again, err := step(); {
		case err != nil:
			a.err = err
			a.logf("%s", describe(err, a.at))
			return false
		case a.last:
			return false
		case !again:
			return true
		}
	}
}

func (a *application) logf(format string, args ...any) {
	if a.log.Len() > 0 {
		a.log.WriteString("; ")
	}
	fmt.Fprintf(&a.log, format, args...)
}

// readRequest processes one event and reports whether there may be another.
func (a *application) readRequest() (again bool, err error) {
	r := &a.request
	event, err := r.Next(a.b, a.limit)
	if err != nil {
		return false, err
	}
	if a.counts == nil {
		a.counts = make(map[Event]int)
	}
	a.counts[event]++
	switch m := r.Message; event {
	case Ready:
		a.begin()
	case Aborted:
		a.logf("aborted %d", m.ID)
		a.last = a.once && !r.Keep
	case ValuesRequested:
		a.logf("values %s", pairs(m.Content))
	case Unknown:
		a.logf("unknown %d", m.Type)
	case Second:
		a.logf("second %d", m.ID)
	case Misplaced:
		begin, err := ParseBegin(m.Content)
		a.logf("misplaced %d as %d %v", m.ID, begin.Role, err)
	}
	if a.small {
		a.consume(r.Drop())
	}
	return event != More, nil
}

// begin starts a request that is ready.
func (a *application) begin() {
	r := &a.request
	x := &exchange{id: r.ID, keep: r.Keep, pieces: len(r.Params), end: "cut off"}
	from := uint32(0)
	for _, s := range r.Params {
		if s.Start < from+HeaderSize || s.End <= s.Start || int(s.End) > r.Size {
			a.Fatalf("parameters at %v of %d bytes", r.Params, r.Size)
		}
		x.list, from = append(x.list, s.In(a.b)...), s.End
	}
	header := r.Size
	if r.Empty {
		header -= HeaderSize
	}
	if h := parseHeader(a.b[header:]); h.Type != Stdin || h.ID != r.ID || r.Empty != (h.Length == 0) {
		a.Fatalf("the body does not begin at %d", r.Size)
	}
	a.consume(r.Size)
	a.all, a.open = append(a.all, x), x
	if r.Empty {
		a.end("empty")
	}
}

func (a *application) consume(n int) { a.b, a.at = a.b[n:], a.at+n }

// end ends the current request and prepares for the next.
func (a *application) end(how string) {
	a.open.end = how
	a.logf("%v", a.open)
	a.last = a.once && !a.open.keep
	a.open = nil
	a.request.Done()
}

// readBody processes one piece and reports whether there may be another.
func (a *application) readBody() (again bool, err error) {
	x, records := a.open, &a.request.Records
	if n := min(records.Left(), len(a.b)); a.small && a.inBody && n > 0 {
		x.body = append(x.body, a.b[:n]...)
		records.Consumed(n)
		a.consume(n)
		return true, nil
	}
	p, n, err := records.Next(a.b)
	if err != nil {
		return false, err
	}
	a.inBody = p.Type == Stdin && p.ID == x.id
	const room = 2
	if rest := len(p.Content) - room; a.small && a.inBody && rest > 0 {
		records.Consumed(-rest)
		p.Content, n = p.Content[:room], n-rest
	}
	switch a.consume(n); {
	case p.Type == 0:
		return false, nil
	case p.Type == GetValues && p.ID == 0:
		a.logf("values %s", pairs(p.Content))
		a.counts[ValuesRequested]++
	// a long list comes in pieces
	case p.Type == BeginRequest || p.Type == Params && records.Left() == 0:
		a.logf("second %d", p.ID)
		a.counts[Second]++
	case p.ID != x.id:
	case p.Type == AbortRequest:
		a.end("aborted")
	case p.Type != Stdin:
	case p.Ends():
		a.end("ended")
	default:
		x.body = append(x.body, p.Content...)
	}
	return true, nil
}

func (a *application) String() string {
	if a.open != nil {
		a.logf("%v", a.open)
	}
	return a.log.String()
}

// readRequests describes everything that an application can observe of a connection.
func readRequests(t testing.TB, limit int, small bool) func([][]byte) string {
	return func(pieces [][]byte) string {
		a := &application{TB: t, limit: limit, small: small}
		for _, p := range pieces {
			if !a.receive(p) {
				break
			}
		}
		return a.String()
	}
}

// The contents of BEGIN_REQUEST in most vectors. Reserved bits and bytes are ignored.
const (
	responder  = "\x00\x01\xfeRESRV"
	keeping    = "\x00\x01\xffRESRV"
	authorizer = "\x00\x02\x01RESRV"
)
