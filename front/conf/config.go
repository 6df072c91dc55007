package conf

import (
	"crypto/tls"
	"net/netip"
	"time"
)

// Config configures a front.Handler. It is plain data: its maker may change and copy it until New
// or Reload receives it, and must not change it after that. A Location does not inherit: its
// Settings are complete. Places with equal Settings should share them: they are compiled once.
//
// Defaults of zero values are nginx's.
type Config struct {
	// Hosts are the virtual hosts. The first one of an address serves requests for unknown names,
	// unless another one is the Listen's Default.
	Hosts []Host
	// Upstreams are groups of servers. A Proxy's To refers to them by name.
	Upstreams []Upstream
	// Caches are caches for responses. A ProxyCache refers to them by name.
	Caches []Cache
	// Maps are variables that depend on others.
	Maps []Map
	// Requests and Conns are the zones of limits. RequestLimit and ConnLimit refer to them by name.
	Requests []Zone
	Conns    []Zone
	// Issuers issue the certificates that Listen.Issued describes.
	Issuers []Issuer
	// ErrorLog is the log for errors of requests whose Settings have none, and for those that concern
	// no request. Nil is the logger of New's options.
	ErrorLog *ErrorLog
	// LogFormats are the formats of logs. "combined" is predefined.
	LogFormats []LogFormat
	// ShutdownTimeout is how long requests may take after another Config has replaced this one, or
	// once the server shuts down; 0 is no limit. After a reload the Handler then ends what requests
	// of this Config have begun: requests to upstreams, hijacked connections, copies, updates of
	// caches. The server must end the clients' connections.
	ShutdownTimeout time.Duration
	// Blank are names of variables, in lower case, that are empty if nothing else defines them.
	// Without it the use of a variable that is not available here is an error.
	Blank map[string]bool
	// Types are media types by file name extension, without the dot. Nil is the system's table.
	Types map[string]string
	// Texts are those whose variables must exist even if nothing uses the texts, as in nginx.
	Texts []PlacedText
}

// Host is a virtual host: a server block.
type Host struct {
	// Listen are the addresses of the host. None is every address.
	Listen []Listen
	// Names are the names of the host. "*.example.org" and "www.example.*" stand for all names of
	// that form, ".example.org" for the name and all below it, "" for requests without a host. A
	// name that begins with "~" is a regular expression, whose named groups become variables. Case
	// is ignored. Of several hosts of an address with a name, the first one has it.
	Names []string
	// Steps are run before a location is found.
	Steps []Step
	// Locations are the locations of paths. Paths without one use Defaults, and are served from
	// files.
	Locations []Location
	// Defaults are the Settings of requests that are in no location; nil is the zero value.
	Defaults *Settings

	// KeepSlashes disables merging of adjacent slashes before a location is found.
	KeepSlashes bool
	// UnderscoreFields forwards request fields whose names have underscores, and AnyFields those
	// with any name that HTTP allows. $http_NAME finds them, too. By default a name may have
	// letters, digits and hyphens only, and other fields are dropped, because some programs confuse
	// them with such fields.
	UnderscoreFields, AnyFields bool
	// RejectHandshake rejects TLS handshakes for this host's names.
	RejectHandshake bool
	// ClientCerts configures client certificates; nil leaves them to the server. The handler
	// verifies them, and the server must request them by tls.RequestClientCert.
	ClientCerts *ClientCerts
	// Pos is its position in the configuration, for messages: "nginx.conf:12", or "nginx.conf:12:5"
	// with the column.
	Pos string
}

// Listen is an address of a Host, with the settings of its connections.
type Listen struct {
	// Addr is HOST:PORT, unix:PATH, or quic:HOST:PORT for HTTP/3 over UDP. HOST is an IP address,
	// [IPv6], or * for all.
	Addr string
	// Default makes the host serve requests for unknown names at the address.
	Default bool
	// TLS rejects requests without TLS at the address. It and Proxied hold for all hosts there if
	// one of them has it.
	TLS   bool
	HTTP2 bool
	// HTTP3 allows HTTP/3 to the host, at an address that starts with quic:, which also requires
	// TLS.
	HTTP3 bool
	// Proxied connections begin with a PROXY protocol header. The server removes it, not the
	// handler, which rejects requests without one: see front.WithProxyHeader.
	Proxied bool
	// Backlog, ReusePort and IPv6Only are options of the socket: see listen(2), socket(7) and
	// ipv6(7). Zero is the system's default.
	Backlog   int
	ReusePort bool
	IPv6Only  bool

	// Certs are files of certificates and keys in PEM. The server reads them, not the handler.
	Certs []CertFiles
	// Issued is a certificate that the server orders and renews; nil is none. It is used before
	// Certs. As long as it does not exist, Certs are used, or handshakes fail.
	Issued *Issued
	// TLSConfig holds the other settings of TLS: versions, cipher suites, client certificates. It
	// has no Certificates.
	TLSConfig *tls.Config
	// TicketKeys encrypt session tickets: the first one new tickets, the others older ones. Nil
	// selects keys of the server, which change daily.
	TicketKeys [][32]byte
	// SessionCache, if TLSConfig disables tickets, names a cache of TLS sessions in the server's
	// memory. "" resumes none, and neither do hosts with client certificates. SessionCacheBytes
	// bounds the cache, and SessionTimeout how long a session may be resumed; 0 is 5 minutes.
	SessionCache      string
	SessionCacheBytes int64
	SessionTimeout    time.Duration
}

// CertFiles names the files of a certificate and its key.
type CertFiles struct {
	Cert, Key string
	// Passwords decrypt the key, one a line. They are tried in their order.
	Passwords string
}

// Location configures a part of a host's paths. It may have at most one of Proxy, Status, Metrics
// and Empty; without any it serves files.
type Location struct {
	// Match is how Path is compared with that of a request, by nginx's modifiers:
	//
	//	""    Path is a prefix
	//	"^~"  Path is a prefix, and no regular expressions follow
	//	"="   the paths are equal
	//	"~"   Path is a regular expression
	//	"~*"  Path is a regular expression, and case is ignored
	//	"@"   Path is the name of a location for internal redirects, with its @
	//
	// The order is: an equal path, the longest prefix if it is "^~", the first regular expression,
	// the longest prefix.
	Match string
	Path  string
	// Locations are nested locations, which are searched when this one matches.
	Locations []Location
	// Internal locations serve internal redirects only; other requests get 404.
	Internal bool
	// Steps are run after the location was found.
	Steps []Step
	// TryFiles are names of files, or of directories if they end in a slash. The first that exists
	// is served. The last element is the fallback: a path, a named location with its @, or a status
	// such as "=404".
	TryFiles []Text

	Proxy   *Proxy // which other locations may share
	Status  bool   // the page of stub_status
	Metrics bool   // metrics in Prometheus' text format
	Empty   bool   // a transparent image of one pixel

	// Settings may be those of other locations, or of the host; nil is the zero value.
	Settings *Settings
	// Pos is its position in the configuration, for messages.
	Pos string
}

// Settings are the settings of a Location, or of requests in no location.
type Settings struct {
	Files Files
	// Header is added to responses.
	Header []AddHeader
	// Expires sets Expires and Cache-Control; nil does not.
	Expires *Expires
	// ErrorPages replace errors. The first one with the error's status applies.
	ErrorPages []ErrorPage
	// RecursiveErrors lets error pages have error pages.
	RecursiveErrors bool
	// Logs are the access logs.
	Logs []Log
	// LogSubrequest also logs copies of requests, and requests for AuthRequest.
	LogSubrequest bool
	// ErrorLog is the log for errors of requests. Nil is the Config's.
	ErrorLog *ErrorLog
	Gzip     *Gzip // nil compresses nothing
	// Brotli and Zstd compress for clients that accept it, and are preferred to Gzip in this order;
	// nil does not.
	Brotli, Zstd *Compression
	// Gunzip decompresses responses with gzip for clients that do not accept it, or that Gunzip's
	// Proxied, HTTP10 and Disable exclude; nil decompresses nothing.
	Gunzip *Gzip
	// Trailers are added to the trailer sections of responses, as Header to their headers. Such
	// responses are chunked; those by HTTP/1.0 have no trailer section.
	Trailers []AddHeader
	// SubFilter replaces strings in bodies; nil replaces nothing.
	SubFilter *SubFilter
	// AddBefore and AddAfter are paths, without variables and queries, of subrequests whose bodies
	// are added to responses with the status 200, a type of AddTypes or text/html, and without
	// Content-Encoding; "" adds nothing. A subrequest is like that of an AuthRequest.
	AddBefore, AddAfter string
	AddTypes            []string
	// NoChunks disables chunked responses. Those of unknown length end with their connection (RFC
	// 9112, 6.3).
	NoChunks bool

	// MaxBody bounds a request's body, in bytes. 0 is 1 MB; a negative value is no limit.
	MaxBody int64
	// MaxHeaders is the maximum number of fields of a request's header; 0 is no limit. It applies
	// in the Defaults of a Host.
	MaxHeaders int
	// BodyBuffer is the length up to which a body that is received for an upstream stays in memory,
	// in bytes. 0 is 16 KB. Longer bodies are in temporary files.
	BodyBuffer int64
	// BodyFile puts bodies that are received for an upstream into files with names, which
	// $request_body_file shows. With "on" a file stays, with "clean" it is removed at the end of
	// the request, and "" makes none. BodyDir is their folder; "" is the system's temporary folder.
	BodyFile string
	BodyDir  string
	// Requests and Conns are the limits of this location.
	Requests []RequestLimit
	Conns    []ConnLimit
	// RequestStatus and ConnStatus are the statuses for rejected requests; 0 is 503. With DryRun a
	// limit only logs.
	RequestStatus, ConnStatus int
	RequestDryRun, ConnDryRun bool
	// RequestLogLevel and ConnLogLevel are the levels of the lines about rejected requests in the
	// error log; "" is "error". Lines about delayed requests are one level less severe.
	RequestLogLevel, ConnLogLevel string
	// Rate bounds a response in bytes per second, after its first RateAfter bytes. Both may have
	// variables; "" is no limit.
	Rate, RateAfter Text

	// Access are rules, of which the first that matches applies.
	Access []AccessRule
	// Password requires a password; nil does not.
	Password *Password
	// AuthDelay delays rejections with 401, so that guessing takes longer.
	AuthDelay time.Duration
	// AuthRequest makes a subrequest that decides on access; nil does not.
	AuthRequest *AuthRequest
	// SatisfyAny requires only one of Access, Password and AuthRequest to grant access.
	SatisfyAny bool

	// Referers are the valid pages with links to here, for $invalid_referer; nil is all.
	Referers *Referers
	// SecureLink configures how $secure_link checks links. If it is nil the variable is empty.
	SecureLink *SecureLink

	// UserID identifies clients by a cookie; nil does not.
	UserID *UserID

	// Mirror sends copies of requests to other locations; nil sends none.
	Mirror *Mirror
	// Trace is the trace context of requests; nil traces nothing.
	Trace *Trace
	// EarlyHints forwards early hints (103) of upstreams if one of its texts is neither empty nor
	// "0". Nil forwards all.
	EarlyHints []Text

	// Closed is the reason why the location serves nothing, or "". Requests get 503, without error
	// pages, and the reason is logged.
	Closed string

	RealIP RealIP
	// BodyTimeout bounds the time between two reads of a request's body, and SendTimeout that
	// between two writes of a response. 0 is 60 seconds.
	BodyTimeout, SendTimeout time.Duration
	// LingerTime bounds how long a connection is read after its last response if the client may
	// still be sending the request's body, and LingerTimeout that time without data. 0 is 30 and 5
	// seconds. With Linger "always" it is read after every last response, and with "off" never. They
	// require a tare.Server, and concern HTTP/1.
	LingerTime, LingerTimeout time.Duration
	Linger                    string
	// KeepAliveRequests and KeepAliveTime bound the requests and the age of a client's connection;
	// 0 is no limit. They require a server that lets handlers see connections, as tare.Server does.
	KeepAliveRequests int
	KeepAliveTime     time.Duration
	// HideVersion leaves the version out of error pages.
	HideVersion bool
	// RelativeRedirects leaves scheme and host out of redirects, and HidePort the port. PrimaryName
	// uses the host's first name instead of the request's.
	RelativeRedirects, HidePort, PrimaryName bool
	// ModifiedSince defines how If-Modified-Since is compared with Last-Modified: "" requires the
	// same time, and "before" one that is not earlier. With "off" the field is ignored, and so is
	// If-None-Match.
	ModifiedSince string
	// MaxRanges bounds the ranges of a request: with more it gets the whole response. 0 is 16, which
	// is also the most, and a negative value disables ranges.
	MaxRanges int
	// NoLogNotFound keeps missing files out of the error log.
	NoLogNotFound bool
}

// Files configures how files are served.
type Files struct {
	// Root is the directory for paths. Alias replaces the location's path. "" means none.
	Root, Alias Text
	// AliasPath is the path that Alias replaces: the location's, or that of an enclosing one from
	// which Alias is inherited. "" is the path of the Location, unless it is a regular expression.
	AliasPath string
	// Index are the names of files that are served for a directory. Nil is index.html.
	Index []Text
	// Listing lists directories without an index.
	Listing bool
	// ListingFormat is "html" or "json"; "" is "html". Pages in HTML have exact sizes unless
	// RoundSizes is set, and times of UTC unless LocalTimes is set.
	ListingFormat          string
	RoundSizes, LocalTimes bool
	// Precompressed are the codings of which x.gz, x.br or x.zst is served instead of x to clients
	// that accept it: "gzip", "br", "zstd". PrecompressedAlways are those for all clients. In both
	// cases x need not exist.
	Precompressed, PrecompressedAlways []string
	// DisableSymlinks restricts symbolic links: "" follows all, "if_not_owner" those whose owner
	// also owns their target, and "on" none. Those in SymlinksFrom, a prefix of the path, are
	// always followed.
	DisableSymlinks string
	SymlinksFrom    Text
	// NoEtag leaves Etag out.
	NoEtag bool
	// Types are media types by file name extension, without the dot. They replace Config.Types.
	Types map[string]string
	// DefaultType is the type of other files; "" is text/plain.
	DefaultType string
	// Charset is added to text/html and the types of CharsetTypes; nil is nginx's list.
	Charset      string
	CharsetTypes []string
}

// AddHeader adds a field to responses with the status 200, 201, 204, 206, 301, 302, 303, 304, 307
// or 308, or to all.
type AddHeader struct {
	Name   string
	Value  Text // an empty value adds nothing
	Always bool
}

// Expires defines how long a response may be cached.
type Expires struct {
	// Text is as in nginx: a time, "epoch", "max", "off", "@" and a time of day, or a variable with
	// one of these.
	Text Text
	// Modified adds Text to the file's modification time.
	Modified bool
}

// ErrorPage replaces an error.
type ErrorPage struct {
	Statuses []int
	// Status is the response's: 0 keeps the error's, and a negative value is the page's.
	Status int
	// Target is a path, a named location with its @, or a URL to redirect to. A name that the Host
	// does not have is no error, as in nginx: requests get 500. nginxconf.Result.Warnings lists it.
	Target Text
}

// RequestLimit is limit_req.
type RequestLimit struct {
	Zone  string
	Burst int
	// NoDelay responds to all requests of the burst at once, and Delay to that many of them. The
	// others are delayed.
	NoDelay bool
	Delay   int
}

// ConnLimit is limit_conn: it bounds the requests in progress.
type ConnLimit struct {
	Zone string
	Max  int
}

// Map is a variable whose value depends on a Text.
type Map struct {
	Name   string // without the dollar sign
	Source Text
	// Default is the value if no Case matches.
	Default Text
	// Cases are compared in nginx's order: exact ones, names with a star if Hostnames is set,
	// regular expressions in their order.
	Cases     []Case
	Hostnames bool
	// Volatile evaluates the variable for each use. Otherwise its value is kept for the request.
	Volatile bool
	// Kind is the kind of the Cases. With "geo" they are networks, of which the longest with the
	// source's address applies, with "split_clients" percentages, "20.5%", or "*".
	Kind string
	// Proxies are networks of proxies: an address in them is replaced by the last one of
	// X-Forwarded-For, or with ProxiesRecursive by the last one there that is not a proxy's.
	Proxies          []netip.Prefix
	ProxiesRecursive bool
}

// Case is one value of a Map.
type Case struct {
	From string // text, "~regex" or "~*regex"; a backslash at the start makes it text
	To   Text
}

// Step is a step of the rewrite phase: a Set, If, Rewrite, Return or Break.
type Step interface {
	// Position returns the step's position in the configuration, "" if it is unknown.
	Position() string
}

// Set sets a variable.
type Set struct {
	Name  string // without the dollar sign
	Value Text
	// Pos is its position in the configuration, for messages. It is optional, as in other steps.
	Pos string
}

// If runs steps if a condition is true.
type If struct {
	Left Text
	// Op is "", which is true if Left is neither empty nor "0"; or "=", "!="; or "~", "~*", "!~",
	// "!~*"; or "-f", "-d", "-e", "-x" and their negations, which test the file that Left names; or
	// "!method", which is true unless Right, a list of words, has the method of the request or
	// subrequest.
	Op    string
	Right Text
	Then  []Step
	// Location, if not nil, replaces the location of the step from Then on. It has the same Match
	// and Path. This is how nginx treats directives in an if that are not steps: with those of the
	// location they form another location, without try_files. It is not found by a path, and its
	// Locations, Steps and TryFiles must be empty.
	Location *Location
	Pos      string
}

// Rewrite replaces a path that matches.
type Rewrite struct {
	Pattern string
	// To is the new path, with an optional ?query. The request's query is appended unless To ends
	// in a question mark. A To with a scheme is a redirect.
	To Text
	// Flag is what follows if the pattern matches: "" the next step, "last" the location of the new
	// path, "break" this location without further steps, "redirect" a response with 302 and
	// "permanent" one with 301.
	Flag string
	Pos  string
}

// Return ends a request. 444 closes the connection without a response.
type Return struct {
	Status int
	Text   Text // the URL of a redirect; otherwise the body
	Pos    string
}

// Break ends the steps.
type Break struct{}

func (s Set) Position() string     { return s.Pos }
func (s If) Position() string      { return s.Pos }
func (s Rewrite) Position() string { return s.Pos }
func (s Return) Position() string  { return s.Pos }
func (Break) Position() string     { return "" }

// Text is text in which $name and ${name} stand for variables, as in nginx:
// "https://$host$request_uri". As there, a literal dollar sign cannot be written.
type Text string

// PlacedText is a Text with its directive and its position in the configuration, for messages.
type PlacedText struct {
	Text           Text
	Directive, Pos string
}

// Zone is the memory of a limit by key: limit_req_zone or limit_conn_zone.
type Zone struct {
	Name string
	// Key is the key to count by. Requests with an empty key are not counted.
	Key Text
	// Rate is the limit in requests per second, for limit_req_zone.
	Rate float64
	// Bytes limits the memory of keys; 0 is 1 MB.
	Bytes int64
}
