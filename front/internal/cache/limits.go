// Package cache is a shared HTTP cache in memory and on disk, as in RFC 9111 and nginx's
// proxy_cache.
//
// Cache.Find serves a request from a stored response, or sends it to the Origin and stores the response
// if Rules and its header allow. Where nginx deviates from RFC 9111, this cache is stricter; see Rules.
//
// Words of this package:
//
//   - entry: a stored response's place in the index, in memory, on disk or both.
//   - flight: a fetch that other requests for the same key wait for (proxy_cache_lock).
//   - fill: a response on its way into the cache.
//   - lease: counts the users of a body in memory.
//   - choice: a field that Vary lists, with its value in the request.
//   - divert: replace a response by another one, as X-Accel-Redirect does.
package cache

import "time"

// Limits.
const (
	defaultInactive = 10 * time.Minute // of conf.Cache.Inactive
	defaultLock     = 5 * time.Second  // of conf.CachePolicy.LockTimeout and LockAge

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

	smallBody = 256 << 10 // bytes of a body in memory if there is a disk
	largeBody = 4 << 20   // bytes of a body in memory without a disk
	perBody   = 16        // bodies of the largest size that memory holds at least
	perDisk   = 2         // bodies of the largest size that the disk holds at least
	// memory/pendingPart, in addition to memory, is for responses on their way in
	pendingPart = 4
	// memory/readPart limits what is sent from memory; above that, files or the origin serve
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
	reportEvery    = 10 * time.Second // minimum time between two lines about a failing disk
	touchEvery     = time.Second      // minimum time between two moves of an entry to the front
	protectedPart  = 80               // percent of memory for responses that were requested twice
)
