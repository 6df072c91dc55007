package front

import (
	"crypto/tls"
	"time"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/upstream"
)

// Protocol is what a Pass speaks.
type Protocol int

// Protocols.
const (
	HTTP Protocol = iota
	HTTPS
	FastCGI
	// SchemeOfTo is HTTP or HTTPS: To begins with http:// or https:// once its variables have values.
	SchemeOfTo
)

// Pass has an upstream answer: proxy_pass or fastcgi_pass.
type Proxy struct {
	Protocol Protocol
	// To is the name of an Upstream or of a bound handler, or HOST:PORT, or unix:PATH, behind a scheme if the Protocol is SchemeOfTo.
	To Text
	// URI replaces the part of the path that the location matched; nil passes the request's URI as it is. Variables in it make it the whole URI.
	URI *Text

	Method Text // "" is the request's
	// Version is "1.0" or "1.1"; "" is "1.0". HTTP 1.1 is spoken all the same, but only "1.1" lets connections be kept, with a
	// Connection in Header that does not say close, as in nginx.
	Version  string
	Header   []Field // of the request, in place of what the client sent; an empty value removes. HTTP only
	NoHeader bool    // nothing of the client's header is passed
	NoBody   bool    // nor its body
	Body     *Text   // this is sent instead

	Params     []Param // of FastCGI
	ParamIndex string  // fastcgi_index
	SplitPath  string  // fastcgi_split_path_info, with two groups

	// Hide and Show are fields of answers that are not passed on, besides those that never are; Ignore are those without effect:
	// X-Accel-Redirect, X-Accel-Expires, X-Accel-Limit-Rate, X-Accel-Buffering, Expires, Cache-Control, Set-Cookie, Vary.
	Hide, Show, Ignore []string
	// Redirects changes Location and Refresh; nil is the default, which replaces To's URL by the location's path, if To has no variables.
	Redirects []Replace
	// NoRedirects leaves them as they are.
	NoRedirects bool
	// CookieDomains and CookiePaths change those of cookies.
	CookieDomains, CookiePaths []Replace

	// Stream passes an answer on as it comes. Otherwise it is received as fast as the upstream sends it, into
	// memory and then files.
	Stream bool
	// StreamRequest passes a body on as it comes, instead of receiving it whole first.
	StreamRequest bool
	// MaxSpool bounds what of an answer is put into files; 0 is 1 GB, below zero is none. BufferBytes is how much of an answer stays in
	// memory; 0 is 64 KB.
	MaxSpool    int64
	BufferBytes int64

	// Timeouts: of connecting, and between two writes and two reads. 0 is 60 seconds.
	ConnectTimeout, SendTimeout, ReadTimeout time.Duration
	// Next is when another server of the group is asked.
	Next upstream.Next
	// Intercept has error pages answer instead of the upstream's errors (300 and above).
	Intercept bool
	// IgnoreAbort lets a request go on whose client is gone.
	IgnoreAbort bool
	// KeepConn keeps connections of FastCGI; those of HTTP are kept if the group's Keepalive says so.
	KeepConn bool

	TLS ProxyTLS

	Cache *ProxyCache
}

// PassTLS is TLS to upstreams.
type ProxyTLS struct {
	Config *tls.Config // certificates and so on; nil verifies nothing, as nginx
	Name   Text        // SNI, and what a certificate is verified for; "" is To's host
	SNI    bool        // sends it
}

// Field is one of a header.
type Field struct {
	Name  string
	Value Text
}

// Param is one of FastCGI.
type Param struct {
	Name       string
	Value      Text
	IfNotEmpty bool
}

// Replace replaces From, or what matches it if it begins with "~" or "~*", by To. Names of groups are those of variables.
type Replace struct {
	From string
	To   Text

	// Default stands for the default of Redirects, among others.
	Default bool
}

// PassCache says what of an upstream's answers is kept, and when it answers.
type ProxyCache struct {
	Zone string // a Cache's name
	Key  Text   // "" is $scheme$proxy_host, and path and query of the upstream request
	// Purge are texts that, if any is neither empty nor "0", have a request be one to forget what is kept of its key, or of all keys that
	// begin with it if it ends in "*". It is answered with 204, or 404 if there was nothing. Whoever may send such requests may do that:
	// let the texts tell who that is.
	Purge []Text
	// Skip are texts that, if any is neither empty nor "0", have a request not be answered from the cache; NoStore those that have its answer not kept,
	// for which they may tell of that answer, such as $upstream_http_x_private; it is waited for then, also where Stale has updates made behind.
	Skip, NoStore []Text
	Policy        cache.Policy
}
