package files

import (
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
	fields            []field      // of a 200
	values            int          // number of values in fields
	head              message.Head // of fields

	content []byte // if it is in memory
}

// field is a header field. Its values are shared: a ResponseWriter gets a copy.
type field struct {
	name   string
	values []string
}

// describe sets the fields of a 200.
func (v *variant) describe(p *plan, coding string, varies bool) {
	add := func(name, value string) {
		if value != "" {
			v.fields = append(v.fields, field{name, []string{value}})
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
	v.fields = append(v.fields, p.always...)
	header := make(http.Header)
	for _, f := range v.fields {
		v.values += len(f.values)
		header[f.name] = f.values
	}
	if v.contentType != "" { // otherwise the server detects one
		v.head = message.NewHead(header)
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
	values := make([]string, 0, v.values)
	for _, f := range v.fields {
		from := len(values)
		values = append(values, f.values...)
		header[f.name] = values[from:len(values):len(values)]
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
