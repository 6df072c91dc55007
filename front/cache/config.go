// Package cache keeps answers of upstreams as RFC 9111 and nginx's proxy_cache say: in memory, and on disk.
//
// A request is answered by Cache.Answer: from what is kept, or by an Origin, whose answer is kept if Rules and its header
// allow. Where nginx keeps to RFC 9111 less than it could, this cache is stricter; see Rules.
package cache

import (
	"net/http"
	"time"
)

// Config is a cache: proxy_cache_path. The zero value of each field but Name is a good one.
type Config struct {
	// Name is what it is known by, the keys_zone.
	Name string
	// Dir is where answers are kept so that they are there after a start, and those that memory has no room for. It is made if it is not
	// there, but for its parent. "" keeps them in memory only.
	Dir string
	// Levels are the numbers of characters that the names of subdirectories have, such as 1, 2.
	Levels []int
	// MaxBytes bounds what is kept, on disk if there is a Dir; 0 is DefaultBytes. What has not been asked for the longest goes first.
	MaxBytes int64
	// MemoryBytes bounds what is kept in memory; 0 is DefaultMemory. What is still being sent counts, after it has been replaced or
	// evicted, too. Responses on their way in may take a quarter more.
	MemoryBytes int64
	// Inactive is how long what nobody asks for is kept, fresh or not; 0 is 10 minutes.
	Inactive time.Duration
	// MinFree is how much of the disk stays free. It is looked at on Linux.
	MinFree int64
}

// Policy is how a location uses a cache.
type Policy struct {
	// Valid says for how long answers are fresh that do not say so themselves, by status. The first that has the status counts.
	Valid []Valid
	// Ignore are fields of answers that say nothing here: Cache-Control, Expires, Set-Cookie, Vary, X-Accel-Expires.
	Ignore []string
	// Methods are those whose answers are kept. They can be GET and HEAD only, which always are: what is answered to others depends on
	// the request's body, which is in no key.
	Methods []string
	// KeepHead passes HEAD on as it is, and stores its response for HEAD alone: proxy_cache_convert_head off. Otherwise the whole response
	// is fetched, and stored for GET.
	KeepHead bool
	// MinUses is the number of requests after which an answer is kept; 0 is 1.
	MinUses int
	// Stale says when an answer that is no longer fresh will do.
	Stale Stale
	// Background updates an answer that is stale behind the back of a request that got it.
	Background bool
	// Revalidate asks whether a stale answer holds, with If-Modified-Since and If-None-Match.
	Revalidate bool
	// Lock has one request at a time fetch what is not there, or is stale; the others wait for LockTimeout (0 is 5 s) and then ask by
	// themselves, with answers that are not kept. LockAge (0 is 5 s) is when the next may fetch while the first one still does.
	Lock                 bool
	LockTimeout, LockAge time.Duration
	// Invalidate removes what is stored under a request's key if its method may have changed that, such as POST, and the response is
	// 2xx or 3xx: RFC 9111, 4.4. nginx does not: any client that may send such a request could make the origin generate a
	// popular response again and again.
	Invalidate bool
	// Status adds a Cache-Status field (RFC 9211) to answers.
	Status bool
	// Diverts, unless it is nil, reports whether the caller replaces a response with another one, as X-Accel-Redirect demands. Such
	// a response authorizes one request only: it is never stored, and one that is stored is not used. It must be safe for
	// concurrent use, and depend on its arguments only.
	Diverts func(status int, header http.Header) bool `json:"-"`
}

// Valid is how long answers of some statuses are fresh: proxy_cache_valid. No status means all of them.
type Valid struct {
	Statuses []int
	For      time.Duration
}

// Stale says what a stale answer will do for: proxy_cache_use_stale. An answer that says must-revalidate or proxy-revalidate is
// never served stale, which nginx does, nor is one that the origin has replaced by an answer that must not be kept or is not fresh: nginx goes
// on serving that while it is Updating.
type Stale struct {
	Error, Timeout, InvalidHeader, Updating bool
	Statuses                                []int // 403, 404, 429, 500, 502, 503, 504
}

const (
	// DefaultBytes of a cache.
	DefaultBytes = 1 << 30
	// DefaultMemory of a cache.
	DefaultMemory = 64 << 20
	// DefaultInactive is for how long what nobody asks for is kept.
	DefaultInactive = 10 * time.Minute
	// DefaultLock is how long requests wait for another's answer.
	DefaultLock = 5 * time.Second
)

// Limits.
const (
	maxKey        = 8 << 10  // bytes of a key; requests with longer ones are passed on
	maxHeader     = 64 << 10 // bytes of an answer's header; answers with longer ones are not kept
	maxVary       = 16       // fields that an answer may vary by
	maxVaryBytes  = 4 << 10  // of them in a request
	maxVariants   = 32       // answers of one key; the one not asked for the longest goes
	maxFlights    = 4096     // answers on their way in; with more, requests are passed on
	maxBackground = 256      // of which nobody waits for
	maxWaiting    = 32 << 10 // requests that wait for another's answer; with more, they are passed on
	maxLevels     = 3        // of subdirectories, each of 1 or 2 characters, as in nginx
	maxForgotten  = 64 << 10 // keys that are forgotten before all files were found; with more, the other files are removed
	maxRanges     = 16       // of a request; with more it gets everything

	smallBody   = 256 << 10 // bytes of a body that is kept in memory if there is a disk for others
	largeBody   = 4 << 20   // likewise without one
	perBody     = 16        // memory holds as many bodies of the largest size at least
	perDisk     = 2         // and the disk
	pendingPart = 4         // of memory, and beside it, is what is on its way in at most
	readPart    = 2         // of memory is what is sent from it at most; with more, it is sent from files, or by the origin
	makeRoom    = 16        // files that go when the disk is too full
	weight      = 512       // bytes that an answer takes in memory beside header and body, about
	indexBytes  = 256       // that a file takes in memory, about
	minCharge   = 4 << 10   // bytes that a file takes on disk at least

	abandonedFor  = time.Minute      // how long an answer is fetched on that only the cache wants
	updatedFor    = 10 * time.Minute // likewise one behind requests' backs, and how long nobody else updates what will do meanwhile
	uncacheable   = 10 * time.Second // how long nobody waits for answers to a key that were not kept
	sweepEvery    = 10 * time.Second // what is inactive is looked for
	touchEvery    = time.Second      // what is asked for is moved to the front at most so often
	protectedPart = 80               // percent of memory, for what was asked for twice
)
