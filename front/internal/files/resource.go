package files

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/message"
)

// resource is what a key leads to. Only its atomic fields change.
type resource struct {
	key      string
	identity *variant // the file itself; nil if it does not exist
	varies   bool     // there are other variants, or may be
	makes    bool     // the handler compresses variants
	unripe   bool     // the file had just changed: equal times prove nothing

	used    atomic.Bool   // since the cache's hand passed
	checked atomic.Int64  // start of the last check, in nanoseconds since the Handler was made
	changes atomic.Uint64 // the watcher's count before that; 0 if it would not count all changes
	checks  []check

	making  sync.Mutex // held while a variant is compressed
	encoded [numCodings]atomic.Pointer[variant]

	at      int   // in the cache's ring, guarded by its mu
	charged int64 // guarded by the cache's mu
}

// variant is a resource in one coding.
type variant struct {
	name  string // of the file, below the root; empty if the handler compressed it
	stamp stamp  // of the file
	size  int64

	contentType, etag string
	modified          time.Time    // zero if unknown
	header            http.Header  // of a 200
	head              message.Head // of header

	content []byte // if it is in memory
}

// describe sets the header of a 200.
func (v *variant) describe(p *plan, coding string, varies bool) {
	v.header = make(http.Header)
	add := func(name, value string) {
		if value != "" {
			v.header[name] = []string{value}
		}
	}
	if p.config.Selector.MaxRanges >= 0 {
		add("Accept-Ranges", "bytes")
	}
	add("Cache-Control", p.config.CacheControl)
	add("Content-Encoding", coding)
	add("Content-Length", strconv.FormatInt(v.size, 10))
	add("Content-Type", v.contentType)
	add("Etag", v.etag)
	if !v.modified.IsZero() {
		add("Last-Modified", v.modified.UTC().Format(http.TimeFormat))
	}
	if varies {
		add("Vary", "Accept-Encoding")
	}
	maps.Copy(v.header, p.always)
	if v.contentType != "" { // otherwise the server detects one
		v.head = message.NewHead(v.header)
	}
}

// AddTo implements connection.HeaderAdder for a 200. As in net/http, a Content-Type that is already in
// the header stays. So does a Vary, in addition to the handler's.
func (v *variant) AddTo(header http.Header) {
	var theirType, theirVary []string
	if len(header) > 0 {
		theirType, theirVary = header["Content-Type"], header["Vary"]
		delete(header, "Vary")
	}
	copies := make([]string, 0, len(v.header))
	for name, values := range v.header {
		from := len(copies)
		copies = append(copies, values...)
		header[name] = copies[from:len(copies):len(copies)]
	}
	if theirType != nil {
		header["Content-Type"] = theirType
	}
	if slices.Contains(theirVary, "Accept-Encoding") {
		header["Vary"] = theirVary
	} else if theirVary != nil {
		header["Vary"] = append(slices.Clip(theirVary), header["Vary"]...)
	}
}

// weight returns the bytes of memory that a resource uses, about.
func (r *resource) weight() int64 {
	w := resourceWeight + int64(len(r.key))
	if r.identity != nil {
		w += int64(len(r.identity.content)) + r.identity.head.Size()
	}
	for i := range r.encoded {
		if v := r.encoded[i].Load(); v != nil {
			w += int64(len(v.content)) + v.head.Size()
		}
	}
	return w
}
