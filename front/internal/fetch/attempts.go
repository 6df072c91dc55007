package fetch

import (
	"strings"
	"sync"
	"time"
)

// Attempts are the records of the attempts of a Request, for variables such as $upstream_addr.
type Attempts struct {
	IsKept  bool       // else there are no records
	mu      sync.Mutex // a cache may continue the request after the client's exchange has ended
	records []*Record
}

// Record is the record of one attempt. A negative duration is unknown.
type Record struct {
	Addr                                  string
	Status                                int // 0 if it is unknown
	ConnectTime, HeaderTime, ResponseTime time.Duration
	BodyBytes                             int64 // of the response
	// BytesSent and BytesReceived are those of the connection, with heads and framing, once the
	// attempt has ended. By HTTP/2 they are those of the stream's frames.
	BytesSent, BytesReceived int64
}

func (t *Attempts) add(addr string) *Record {
	if !t.IsKept {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Record{Addr: addr, ConnectTime: -1, HeaderTime: -1, ResponseTime: -1}
	t.records = append(t.records, s)
	return s
}

// update changes a record. s may be nil.
func (t *Attempts) update(s *Record, change func(s *Record)) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change(s)
}

// HasAny reports whether there is a record.
func (t *Attempts) HasAny() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records) > 0
}

// List joins one value of all attempts, with commas as nginx does.
func (t *Attempts) List(value func(*Record) string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, s := range t.records {
		all = append(all, value(s))
	}
	return strings.Join(all, ", ")
}
