package conf

import "time"

// Cache describes a cache: proxy_cache_path. Every field but Name may be zero.
type Cache struct {
	// Name identifies the cache: keys_zone.
	Name string
	// Dir holds responses across restarts, and those that do not fit into memory. The cache creates
	// it, but not its parent. If it is empty, responses are stored in memory only.
	Dir string
	// Levels are the lengths of the names of subdirectories, such as 1, 2.
	Levels []int
	// MaxBytes limits what is stored, on disk if Dir is set; 0 is 1 GB. The least recently used
	// response goes first.
	MaxBytes int64
	// MemoryBytes limits what is stored in memory; 0 is 64 MB. A body that is still being sent
	// counts, even after it has been replaced or evicted. Responses on their way in may use a
	// quarter more.
	MemoryBytes int64
	// Inactive is how long an unused response is stored, fresh or not; 0 is 10 minutes.
	Inactive time.Duration
	// MinFree is the space of the disk that stays free, in bytes. Only Linux reports it.
	MinFree int64
}

// CachePolicy is how a location uses a cache.
type CachePolicy struct {
	// Valid is the freshness, by status, of responses that do not define it themselves. The
	// first element with the status counts.
	Valid []CacheValid
	// Ignore lists fields of responses that have no effect: Cache-Control, Expires, Set-Cookie,
	// Vary, X-Accel-Expires.
	Ignore []string
	// KeepHead forwards HEAD unchanged, and stores its response for HEAD alone:
	// proxy_cache_convert_head off. Otherwise the cache sends GET, and stores the whole response.
	KeepHead bool
	// MaxRangeOffset bounds the first byte of a range in requests that may fetch the whole response:
	// it must be before the offset. Others are forwarded as they are if the response is not stored,
	// and so are those of the last bytes. 0 is no limit, and a negative value forwards all.
	MaxRangeOffset int64
	// MinUses is the number of requests after which a response is stored; 0 is 1.
	MinUses int
	// Stale defines when a stale response is served.
	Stale CacheStale
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
}

// CacheValid is the freshness of responses with some statuses: proxy_cache_valid. Without Statuses
// it applies to all.
type CacheValid struct {
	Statuses []int
	For      time.Duration
}

// CacheStale defines when a stale response is served: proxy_cache_use_stale. Unlike nginx, the
// cache never serves a stale response with must-revalidate or proxy-revalidate. With Updating,
// nginx also serves one that the origin has replaced by a response that is not storable or not
// fresh; this cache does not.
type CacheStale struct {
	Error, Timeout, InvalidHeader, Updating bool
	Statuses                                []int // 403, 404, 429, 500, 502, 503, 504
}
