package files

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// resource is what a key leads to. It is fixed but for what is atomic.
type resource struct {
	key      string
	absent   bool     // there is nothing
	identity *variant // the file itself
	varies   bool     // there are other variants, or may be
	makes    bool     // variants are made of it here
	unripe   bool     // it had just been changed: that its times are the same says nothing

	until atomic.Int64 // the tick from which on it has to be looked at again
	used  atomic.Bool  // since the cache's hand came by
	looks looks        // in place of until, if files are found by path

	making  sync.Mutex // held while a variant is made
	encoded [numCodings]atomic.Pointer[variant]

	at      int   // in the cache's ring, under its mu
	charged int64 // likewise
}

// variant is bytes that stand for a resource, in one coding.
type variant struct {
	name  string // of the file, below the root; empty if it was made here
	stamp stamp  // of the file
	size  int64

	contentType, etag string
	modified          time.Time // zero if it says nothing
	fields            []field   // of a 200
	values            int       // in fields

	content []byte // if it is in memory
	files   descriptors
}

// field is a header field. Its values are only read: what is given to a ResponseWriter is a copy.
type field struct {
	name   string
	values []string
}

// worthless stands for a variant that is no shorter than the file.
func (v *variant) worthless() bool { return v.fields == nil }

// describe fills in the fields of a 200.
func (v *variant) describe(p *plan, coding string, varies bool) {
	add := func(name, value string) {
		if value != "" {
			v.fields = append(v.fields, field{name, []string{value}})
		}
	}
	add("Accept-Ranges", "bytes")
	add("Cache-Control", p.cacheControl)
	add("Content-Encoding", coding)
	add("Content-Length", strconv.FormatInt(v.size, 10))
	add("Content-Type", v.contentType)
	add("Etag", v.etag)
	add("Last-Modified", v.lastModified())
	if varies {
		add("Vary", "Accept-Encoding")
	}
	v.fields = append(v.fields, p.always...)
	for _, f := range v.fields {
		v.values += len(f.values)
	}
}

func (v *variant) lastModified() string {
	if v.modified.IsZero() {
		return ""
	}
	return v.modified.UTC().Format(http.TimeFormat)
}

// set sets the fields of a 200. A header that has been given some already keeps its Content-Type, as it does in
// net/http, and its Vary beside ours.
func (v *variant) set(header http.Header) {
	var theirType, theirVary []string
	if len(header) > 0 {
		theirType, theirVary = header["Content-Type"], header["Vary"]
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
	if theirVary != nil {
		header["Vary"] = append(theirVary[:len(theirVary):len(theirVary)], header["Vary"]...)
	}
}

// weight is what a resource takes in memory, about.
func (r *resource) weight() int64 {
	w := resourceWeight + int64(len(r.key))
	if r.identity != nil {
		w += int64(len(r.identity.content))
	}
	for i := range r.encoded {
		if v := r.encoded[i].Load(); v != nil {
			w += int64(len(v.content))
		}
	}
	return w
}

// retire closes what is open and idle of a resource that has been forgotten. Whoever answers from it still may.
func (r *resource) retire() {
	r.eachVariant(func(v *variant) { v.files.retire() })
}

func (r *resource) eachVariant(f func(*variant)) {
	if r.identity != nil {
		f(r.identity)
	}
	for i := range r.encoded {
		if v := r.encoded[i].Load(); v != nil {
			f(v)
		}
	}
}
