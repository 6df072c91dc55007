package conf

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// Proxy forwards requests to an upstream, as proxy_pass and fastcgi_pass do.
type Proxy struct {
	// Protocol is "" for HTTP, "https" or "fastcgi". With "scheme" it is HTTP or HTTPS, by the
	// http:// or https:// that the value of To begins with. With "grpc" the value may begin with
	// grpc:// or grpcs://.
	Protocol string
	// To is the name of an Upstream or of a bound handler, or HOST:PORT, or unix:PATH. A scheme
	// precedes it if Protocol is "scheme".
	To Text
	// URI replaces the part of the path that the location matched. Nil forwards the request's URI
	// unchanged. A URI with variables is the whole URI.
	URI *Text
	// Resolver resolves names in To that come from variables. Nil is the system's resolver.
	Resolver *Resolver

	Method Text // "" is the request's
	// Version is "1.0", "1.1" or "2"; "" is "1.0". Requests are HTTP/1.1 with the first two. As in
	// nginx only "1.1" allows keep-alive, and only with a Connection in Header other than close.
	// With "2", requests share connections; without TLS the server must support HTTP/2 by prior
	// knowledge (RFC 9113, 3.3).
	Version  string
	Header   []Field // replaces fields of the client; an empty value removes one. HTTP only
	NoHeader bool    // drops the client's header
	NoBody   bool    // drops the client's body
	Body     *Text   // replaces the client's body

	Params     []Param // FastCGI only
	ParamIndex string  // fastcgi_index
	SplitPath  string  // fastcgi_split_path_info, with two groups

	// Hide are fields of responses that are not forwarded, besides nginx's defaults, and Show are
	// exceptions. Ignore are fields without effect: X-Accel-Redirect, X-Accel-Expires,
	// X-Accel-Limit-Rate, X-Accel-Buffering, Expires, Cache-Control, Set-Cookie, Vary.
	Hide, Show, Ignore []string
	// Redirects changes Location and Refresh. Nil is the default: it replaces the URL of To by the
	// location's path, if To has no variables.
	Redirects []Replace
	// NoRedirects leaves Location and Refresh unchanged.
	NoRedirects bool
	// CookieDomains and CookiePaths change the domains and paths of cookies.
	CookieDomains, CookiePaths []Replace
	// CookieFlags changes attributes of the cookies that From names, by the first element with the
	// cookie's name. To has words: secure, nosecure, httponly, nohttponly, samesite=strict,
	// samesite=lax, samesite=none, nosamesite.
	CookieFlags []Replace

	// ForceRanges serves a range of a response with a length, whether or not the upstream supports
	// ranges. Of several ranges the client receives the whole response.
	ForceRanges bool
	// Bind is the local address of connections, IP or IP:PORT. "" and an invalid value leave it to
	// the system. It does not apply to unix sockets.
	Bind Text
	// ReadRate limits how fast a response is read, in bytes per second, unless it is streamed. "",
	// "0" and invalid values do not.
	ReadRate Text
	// CatchStderr are texts that, in what a FastCGI application writes to STDERR before its
	// response, make that invalid.
	CatchStderr []string

	// Slice is the size of the slices that responses are fetched and cached in; 0 does not slice.
	// It applies to requests for which $slice_range is used, in a Range of Header and in the key of
	// the Cache.
	Slice int64
	// Stream forwards a response without buffering, and its head before the body. Otherwise it is
	// received at the upstream's speed, into memory and then into a file. Both pass on what has
	// arrived when the upstream pauses.
	Stream bool
	// StreamRequest forwards a request's body while it arrives. Otherwise it is received completely
	// first.
	StreamRequest bool
	// MaxSpool bounds the bytes of a response in a file: 0 is 1 GB, and a negative value disables
	// files. BufferBytes bounds the bytes in memory; 0 is 64 KB.
	MaxSpool    int64
	BufferBytes int64

	// Timeouts for connecting, and between two writes and two reads. 0 is 60 seconds.
	ConnectTimeout, SendTimeout, ReadTimeout time.Duration
	// Next defines when another server of the group is tried.
	Next NextUpstream
	// Intercept lets error pages replace the upstream's responses from 300 on.
	Intercept bool
	// IgnoreAbort continues a request after its client has gone.
	IgnoreAbort bool
	// KeepConn keeps FastCGI connections. HTTP connections are kept if the group's Keepalive allows
	// it.
	KeepConn bool

	TLS ProxyTLS
	// Check checks the servers of the upstream; nil does not.
	Check *HealthCheck

	Cache *ProxyCache
}

// ProxyTLS configures TLS to upstreams.
type ProxyTLS struct {
	Config *tls.Config // nil verifies nothing, as nginx
	// Intermediates complete chains to the trust anchors, which are Config.RootCAs.
	Intermediates []*x509.Certificate
	Name          Text // the server name for SNI and verification; "" is the host of To
	SNI           bool // sends Name
	// NoResumption makes a full handshake for each connection.
	NoResumption bool
	// Cert and Key name files of a certificate for upstreams and its key, in PEM, which are read
	// for new connections. "" sends none. Relative names are below Dir. Passwords are as in
	// CertFiles. Such a certificate replaces those of Config.
	Cert, Key      Text
	Dir, Passwords string
}

// Field is a header field.
type Field struct {
	Name  string
	Value Text
}

// Param is a FastCGI parameter.
type Param struct {
	Name       string
	Value      Text
	IfNotEmpty bool
}

// Replace replaces From by To. If From begins with "~" or "~*" the rest is a regular expression,
// whose named groups become variables.
type Replace struct {
	From string
	To   Text

	// Default stands for the default of Redirects.
	Default bool
}

// ProxyCache configures how a Proxy uses a cache.
type ProxyCache struct {
	// Zone is the name of a Cache. If it has variables, "" and "off" use none, and the name of no
	// Cache is an error, 500.
	Zone Text
	Key  Text // "" is $scheme$proxy_host and the target of the upstream request
	// If one of Purge is neither empty nor "0", the request purges its key. The response is 204, or
	// 404 if nothing was cached. Any client that can send such a request can purge: the texts must
	// restrict that.
	Purge []Text
	// If one of Skip is neither empty nor "0", the request is not served from the cache. If one of
	// NoStore is, the response is not stored. NoStore may use variables of the response, such as
	// $upstream_http_x_private; the request then waits for the response even if Stale allows
	// background updates.
	Skip, NoStore []Text
	Policy        CachePolicy
}

// Mirror sends copies of requests to other locations, whose responses are discarded. The client
// does not wait for them: after five minutes, or if 512 are in progress, copies are lost and
// logged.
type Mirror struct {
	// URIs are the paths of locations, without variables and queries. The copies have the query of
	// the request.
	URIs []string
	// NoBody leaves the body out of the copies. Otherwise it is received completely before the
	// request goes on.
	NoBody bool
}
