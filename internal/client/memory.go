package client

import (
	"context"
	"net"
	"net/http"
	"slices"
	"unsafe"

	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// maxKeptFields limits the header and the fields that are reused, because a map never shrinks.
	maxKeptFields = 32
	// minMemoryText is the least size of a Memory's text, which grows by doubling.
	minMemoryText = 512
)

// Memory is the memory of one exchange after another, for callers that know when a response is no
// longer in use. The zero value is ready.
//
// The response has no Header until the caller calls Header: its head lies in the Memory as it was
// received. An exchange without a Header makes no strings, and allocates nothing for its response.
// A body that has arrived with the head lies in the Memory, too. All of this is valid until Reset.
//
// The response has a Header, and Head returns nil, if the Client is not Verbatim, if its trailer
// section is announced, after a retry, and if the memory was not Reset after another exchange.
type Memory struct {
	slab   slab
	head   Head
	text   []byte      // a copy of the head, and of a body that has arrived with it
	header http.Header // empty, for reuse; nil while it is in use
}

// Head is the head of a response as it was received. It refers to a Memory, until its Reset, and is
// read only.
type Head struct {
	Text   []byte        // from the first byte of the head
	Fields []http1.Field // offsets into Text; without those of CGI, such as Status
}

// newSlab returns the slab of an exchange for a request, in the Memory of the Call if it has one.
func (c *Client) newSlab(r *http.Request, call *Call) (x *slab) {
	var m *Memory
	if call != nil && call.Memory.isFree() && c.config.Verbatim {
		m = call.Memory
		x = &m.slab
	} else {
		x = &slab{}
	}
	if x.client, x.request = c, r; call != nil && call.Context != nil {
		x.ctx = call.Context
	} else {
		x.ctx = r.Context()
	}
	if x.getBody = r.GetBody; r.Body != nil && r.Body != http.NoBody {
		x.body = &requestBody{body: r.Body}
	}
	x.scratch = c.newScratch()
	x.scratch.call, x.scratch.memory = call, m
	return x
}

// Head returns the head of the response, or nil if the response has a Header.
func (m *Memory) Head() *Head {
	if m.slab.response.StatusCode == 0 || m.slab.response.Header != nil {
		return nil
	}
	return &m.head
}

// Header returns the Header of the response, and makes it at the first call. Its values may be kept
// after Reset.
func (m *Memory) Header() http.Header {
	r := &m.slab.response
	if r.Header == nil {
		text := http1.TextOf(m.head.Text)
		r.Header, m.header = makeHeader(m.header, m.head.Fields, &text, nil), nil
	}
	return r.Header
}

// isFree reports whether there has been no exchange since the last Reset. m may be nil.
func (m *Memory) isFree() bool { return m != nil && m.slab.client == nil }

// Reset prepares the memory for another exchange. The caller must not use the response, its Header,
// its Head and its body any more. Reset does nothing and reports false if others may: the response
// has not been received to its end, a goroutine sends or has sent the request's body, or the end of
// the context is being reported. Such a memory is not used again.
func (m *Memory) Reset() bool {
	if !m.isFree() && !m.slab.isOver {
		return false
	}
	h := m.header
	if used := m.slab.response.Header; used != nil {
		h = used
	}
	if len(h) > maxKeptFields {
		h = nil
	}
	clear(h)
	text, fields := keptOrNil(m.text), m.head.Fields[:0]
	if cap(fields) > maxKeptFields {
		fields = nil
	}
	*m = Memory{header: h, text: text, head: Head{Fields: fields}}
	return true
}

// keep stores a copy of a head and its fields, with room for a body behind the head in text. It
// returns memory for the next head's fields: that of the last copy, or at first that of fields.
func (m *Memory) keep(head []byte, fields []http1.Field, room int) (spare []http1.Field) {
	if n := len(head) + room; cap(m.text) < n {
		m.text = make([]byte, 0, max(n, 2*cap(m.text), minMemoryText))
	}
	m.text = append(m.text[:0], head...)
	spare = m.head.Fields[:0]
	if cap(spare) == 0 {
		spare, fields = fields[:0], slices.Clone(fields)
	}
	m.head = Head{Text: m.text[:len(head):len(head)], Fields: fields}
	return spare
}

// body returns the body that follows the head in text. It is a view of text, which does not change
// until Reset.
func (m *Memory) body() string {
	b := m.text[len(m.head.Text):]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Call holds what a proxy sets for one request, beside the Config of its Client. It must not change
// before the exchange has ended.
type Call struct {
	Context context.Context // used in place of the request's
	// Addr is the address of the server: a host and port, or a unix socket if it begins with a
	// slash. "" takes it from the Config or the URL.
	Addr string
	// IsRepeatable reports whether the request may be sent a second time, if a reused connection was
	// closed before any byte of a response. A proxy must not rely on what its client claims.
	IsRepeatable bool
	Hooks        Hooks   // nil without any
	Memory       *Memory // holds the response; nil allocates it

	// The fields below are for FastCGI.
	//
	// Params are all parameters of the request. nil selects the Client's Describe.
	Params *Params
	// StreamBody sends a body of known length while it is read, however short it is. Otherwise a
	// short one is read first.
	StreamBody bool
}

// Hooks are called during an exchange. They must not block, except for Dial.
type Hooks interface {
	// Dial opens a connection to the server, with TLS if the URL demands it.
	Dial(ctx context.Context) (net.Conn, error)
	// Interim receives each interim response except 100.
	Interim(status int, h http.Header)
	// Ended is called once for each use of a connection, when the exchange has ended or has switched
	// protocols. It receives the numbers of bytes that were sent and received, with heads and
	// framing, before encryption.
	Ended(sent, received int64)
	// Stderr receives what a FastCGI application writes to STDERR.
	Stderr(text []byte)
}

// hooks returns the hooks of a Call, or nil.
func (c *Call) hooks() Hooks {
	if c == nil {
		return nil
	}
	return c.Hooks
}
