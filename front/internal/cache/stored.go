package cache

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

// keyID is the hash of a key, which also names its files. Lookups compare whole keys, too.
type keyID [16]byte

func identify(key string) (id keyID) {
	var buf [512]byte // most keys fit
	sum := sha256.Sum256(append(buf[:0], key...))
	copy(id[:], sum[:])
	return id
}

// stored is a stored response. It never changes.
type stored struct {
	key     string
	choices []choice
	status  int
	header  http.Header  // shared: readers must not change it
	head    message.Head // of header, once the response is whole
	life    lifetime
	length  int64
	body    []byte
	lease   *lease // of body; nil if it is only on disk
}

// isExcluded reports whether a field is not stored: it belongs to one message, or is set anew.
func isExcluded(name string) bool {
	return http1.ConcernsConnection(name) || name == "Age" || name == "Content-Length" || name == "Proxy-Authentication-Info"
}

// keptHeader returns the fields to store, and whether they are short enough. A 426 keeps Upgrade.
func keptHeader(status int, h http.Header) (kept http.Header, ok bool) {
	kept = make(http.Header, len(h)+1)
	total := 0
	for name, values := range h {
		isUpgrade := name == "Upgrade" && status == http.StatusUpgradeRequired
		if !isUpgrade && (isExcluded(name) || http1.HasToken(h["Connection"], name)) {
			continue
		}
		for _, v := range values {
			total += len(name) + len(v)
		}
		kept[name] = values
	}
	return kept, total <= maxHeader
}

// complete returns the response with the length of its body.
func (s *stored) complete(length int64) *stored {
	whole := *s
	whole.length = length
	if s.status != http.StatusNoContent && !s.headOnly() {
		whole.header = s.header.Clone()
		whole.header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	whole.head = message.NewHead(whole.header)
	return &whole
}

// headSuffix ends the keys of responses to HEAD that have no body.
const headSuffix = "\x00HEAD"

// headOnly reports whether this is a response to HEAD, which announces the length of a body that it
// does not have.
func (s *stored) headOnly() bool { return strings.HasSuffix(s.key, headSuffix) }

// hold sets the body in memory.
func (s *stored) hold(body []byte) { s.body, s.lease = body, &lease{size: int64(cap(body))} }

// withoutBody returns the response for sending its body from the file. It holds no memory.
func (s *stored) withoutBody() *stored {
	head := *s
	head.body, head.lease = nil, nil
	return &head
}

// refreshed returns the response after a 304. The 304's fields replace the stored ones, except
// those that describe the body or the status: RFC 9111, 3.2.
func (s *stored) refreshed(h http.Header) *stored {
	fresh := *s
	fresh.header = s.header.Clone()
	for name, values := range h {
		switch name {
		case "Content-Encoding", "Content-Range", "Content-Type", "Etag", "Status": // Status is CGI's
			continue
		}
		if !isExcluded(name) && !http1.HasToken(h["Connection"], name) {
			fresh.header[name] = values
		}
	}
	fresh.head = message.NewHead(fresh.header)
	return &fresh
}

// holds reports whether a 304 with a header can refer to this response: RFC 9111, 4.3.4.
func (s *stored) holds(h http.Header) bool {
	etag := h.Get("Etag")
	return etag == "" || strings.TrimPrefix(etag, "W/") == strings.TrimPrefix(s.header.Get("Etag"), "W/")
}

// age returns the current age: RFC 9111, 4.2.3.
func (s *stored) age(now time.Time) time.Duration {
	return s.life.age + max(0, now.Sub(s.life.received))
}

// weight returns the bytes of memory that the response uses, about.
func (s *stored) weight() int64 {
	n := int64(weight+len(s.key)+cap(s.body)) + s.head.Size()
	for name, values := range s.header {
		n += int64(len(name)) + 48
		for _, v := range values {
			n += int64(len(v)) + 16
		}
	}
	for _, c := range s.choices {
		n += int64(len(c.name) + len(c.value) + 32)
	}
	return n
}
