// Package cache is a shared HTTP cache in memory and on disk, as in RFC 9111 and nginx's
// proxy_cache.
//
// Cache.Respond serves a request from a stored response, or sends it to an Origin and stores the
// response if Rules and its header allow. Where nginx deviates from RFC 9111, this cache is
// stricter; see Rules.
//
// Words of this package:
//
//   - entry: a stored response's place in the index, in memory, on disk or both.
//   - flight: a fetch that other requests for the same key wait for (proxy_cache_lock).
//   - intake: a response on its way into the cache; fill is its body.
//   - lease: counts the users of a body in memory.
//   - choice: a field that Vary lists, with its value in the request.
//   - divert: replace a response by another one, as X-Accel-Redirect does.
package cache

import (
	"net/http"
	"time"
)

// Config describes a cache: proxy_cache_path. Every field but Name may be zero.
type Config struct {
	// Name identifies the cache: keys_zone.
	Name string
	// Dir holds responses across restarts, and those that do not fit into memory. The cache creates
	// it, but not its parent. If it is empty, responses are stored in memory only.
	Dir string
	// Levels are the lengths of the names of subdirectories, such as 1, 2.
	Levels []int
	// MaxBytes limits what is stored, on disk if Dir is set; 0 is DefaultBytes. The least recently
	// used response goes first.
	MaxBytes int64
	// MemoryBytes limits what is stored in memory; 0 is DefaultMemory. A body that is still being
	// sent counts, even after it has been replaced or evicted. Responses on their way in may use a
	// quarter more.
	MemoryBytes int64
	// Inactive is how long an unused response is stored, fresh or not; 0 is 10 minutes.
	Inactive time.Duration
	// MinFree is the space of the disk that stays free, in bytes. Only Linux reports it.
	MinFree int64
}

// Policy is how a location uses a cache.
type Policy struct {
	// Valid is the freshness, by status, of responses that do not define it themselves. The first
	// element with the status counts.
	Valid []Valid
	// Ignore lists fields of responses that have no effect: Cache-Control, Expires, Set-Cookie,
	// Vary, X-Accel-Expires.
	Ignore []string
	// Methods are those whose responses are stored. Only GET and HEAD are allowed, and both always
	// are stored: responses to other methods depend on the request body, which no key contains.
	Methods []string
	// KeepHead forwards HEAD unchanged, and stores its response for HEAD alone:
	// proxy_cache_convert_head off. Otherwise the cache sends GET, and stores the whole response.
	KeepHead bool
	// MinUses is the number of requests after which a response is stored; 0 is 1.
	MinUses int
	// Stale defines when a stale response is served.
	Stale Stale
	// Background updates a stale response in the background after it was served.
	Background bool
	// Revalidate validates a stale response with If-Modified-Since and If-None-Match.
	Revalidate bool
	// Lock lets one request at a time fetch a missing or stale response. The others wait for
	// LockTimeout (0 is 5 s). Then they go to the origin, and their responses are not stored. After
	// LockAge (0 is 5 s) another request may fetch while the first one still does.
	Lock                 bool
	LockTimeout, LockAge time.Duration
	// Invalidate removes what is stored under a request's key after a 2xx or 3xx response to an
	// unsafe method such as POST: RFC 9111, 4.4. It is not nginx's behavior: a client could make
	// the origin generate a popular response again and again.
	Invalidate bool
	// Status adds Cache-Status (RFC 9211) to responses.
	Status bool
	// Diverts, if not nil, reports whether the caller replaces a response, as X-Accel-Redirect
	// demands. Such a response authorizes one request only: it is never stored, and a stored one is
	// not used. Diverts must be safe for concurrent use and depend on its arguments only.
	Diverts func(status int, header http.Header) bool `json:"-"`
}

// Valid is the freshness of responses with some statuses: proxy_cache_valid. Without Statuses it
// applies to all.
type Valid struct {
	Statuses []int
	For      time.Duration
}

// Stale defines when a stale response is served: proxy_cache_use_stale. Unlike nginx, the cache
// never serves a stale response with must-revalidate or proxy-revalidate. With Updating, nginx also
// serves one that the origin has replaced by a response that is not storable or not fresh; this
// cache does not.
type Stale struct {
	Error, Timeout, InvalidHeader, Updating bool
	Statuses                                []int // 403, 404, 429, 500, 502, 503, 504
}

const (
	// DefaultBytes is the default of Config.MaxBytes.
	DefaultBytes = 1 << 30
	// DefaultMemory is the default of Config.MemoryBytes.
	DefaultMemory = 64 << 20
	// DefaultInactive is the default of Config.Inactive.
	DefaultInactive = 10 * time.Minute
	// DefaultLock is the default of Policy.LockTimeout and Policy.LockAge.
	DefaultLock = 5 * time.Second
)

// Limits.
const (
	maxKey = 8 << 10 // bytes of a key; requests with longer ones are forwarded
	// bytes of a response's header; responses with longer ones are not stored
	maxHeader     = 64 << 10
	maxVary       = 16       // fields in Vary
	maxVaryBytes  = 4 << 10  // bytes of their values in a request
	maxVariants   = 32       // responses of one key; the least recently used one goes
	maxFlights    = 4096     // responses on their way in; above that, requests are forwarded
	maxBackground = 256      // background updates
	maxWaiting    = 32 << 10 // waiting requests; above that, requests are forwarded
	maxLevels     = 3        // of subdirectories, each of 1 or 2 characters, as in nginx
	// keys purged before all files were found; above that, the other files are removed
	maxForgotten = 64 << 10
	maxRanges    = 16 // of a request; with more, the whole response is sent

	smallBody = 256 << 10 // bytes of a body in memory if there is a disk
	largeBody = 4 << 20   // bytes of a body in memory without a disk
	perBody   = 16        // bodies of the largest size that memory holds at least
	perDisk   = 2         // bodies of the largest size that the disk holds at least
	// this part of memory, in addition to it, limits responses on their way in
	pendingPart = 4
	// this part of memory limits what is sent from memory; above that, files or the origin serve
	readPart   = 2
	makeRoom   = 16      // files to remove if the disk is too full
	weight     = 512     // bytes of memory that a response needs beside header and body, about
	indexBytes = 256     // bytes of memory that a file needs, about
	minCharge  = 4 << 10 // bytes on disk that a file needs at least

	abandonedFor = time.Minute // time to finish a response that only the cache still wants
	// time for a background update, during which no other update begins
	updatedFor = 10 * time.Minute
	// time during which requests do not wait for a key whose response was not stored
	uncacheableFor = 10 * time.Second
	sweepEvery     = 10 * time.Second // interval between searches for inactive entries
	touchEvery     = time.Second      // minimum time between two moves of an entry to the front
	protectedPart  = 80               // percent of memory for responses that were requested twice
)
