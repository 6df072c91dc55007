package front

import (
	"crypto/tls"
	"time"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/front/limit"
	"github.com/tarehq/tare/front/upstream"
)

// Text is text in which $name and ${name} stand for variables, as in nginx: "https://$host$request_uri". A dollar sign of
// its own cannot be written, as there.
type Text string

// Config says what is served and how. It is plain: whoever makes one may change and copy it until New or Reload is given it, and
// must leave it alone from then on. It is not inherited from: what holds in a Location is said there whole. See Host.Defaults.
//
// Where a field's zero value is described as a default, that is nginx's.
type Config struct {
	// Hosts are the virtual hosts. The first one of an address answers what no other is meant by, unless another is
	// its Listen's Default.
	Hosts []Host
	// Upstreams are groups of servers, by the name that a Pass's To gives as its host.
	Upstreams []upstream.Config
	// Caches are what answers are kept in, by the name that a Pass's Cache gives.
	Caches []cache.Config
	// Maps are variables that depend on others.
	Maps []Map
	// Requests and Conns count for limits, by the names that a Location's limits give.
	Requests []limit.Config
	Conns    []limit.Config
	// LogFormats are those of logs, by name. "combined" is there without being said.
	LogFormats []LogFormat
	// BlankUnavailable has variables be empty that nginx knows and that are not to be had here: see Unavailable. Otherwise they are errors.
	BlankUnavailable bool
	// Types are media types by the ends of file names, without the dot. Nil is the system's table.
	Types map[string]string
}

// Host is a virtual host: a server block.
type Host struct {
	// Listen are the addresses that it answers at. None is every address.
	Listen []Listen
	// Names are what it is called: "example.org", "*.example.org", "www.example.*", ".example.org" for both the name and
	// what is below it, "" for requests without a host, or a regular expression that begins with "~", whose named groups
	// become variables. They are compared without regard to case.
	Names []string
	// Steps are run before a location is found.
	Steps []Step
	// Locations are what paths mean here. Without a match the host's Defaults and files answer.
	Locations []Location
	// Defaults are the Settings of requests that are in no location.
	Defaults Settings

	// KeepSlashes keeps several slashes in a row apart when a location is found.
	KeepSlashes bool
	// UnderscoreFields passes on request fields whose names have underscores, and AnyFields those with any name that HTTP allows;
	// $http_NAME finds them, too. Other fields than those whose names have letters, digits and hyphens are dropped otherwise: some
	// programs take them for these.
	UnderscoreFields, AnyFields bool
	// RejectHandshake ends TLS handshakes for this host's names.
	RejectHandshake bool
	// ClientCerts says which certificates of clients the host needs; nil leaves that to the server. The server has to request
	// certificates, by tls.RequestClientCert: the handler verifies them.
	ClientCerts *ClientCerts
	// Pos is where it was configured, for messages: "nginx.conf:12".
	Pos string
}

// Listen is an address of a Host, and how connections to it are made.
type Listen struct {
	// Addr is HOST:PORT, or unix:PATH. HOST is an IP address, [IPv6], or * for all.
	Addr string
	// Default has the host answer what no host of the address is meant by.
	Default bool
	TLS     bool
	HTTP2   bool
	// Proxied connections begin with a header of the PROXY protocol. Whoever serves the handler removes it; see WithProxyHeader.
	Proxied bool
	// Backlog, ReusePort and IPv6Only are the socket's; see listen(2), socket(7) and ipv6(7). Zero is the system's way.
	Backlog   int
	ReusePort bool
	IPv6Only  bool

	// Certs are the files of certificates and keys of the host, in PEM. The handler does not read them: whoever
	// serves it does.
	Certs []CertFiles
	// TLSConfig is what else of TLS the host asks for: versions, suites, clients' certificates. It has no Certificates.
	TLSConfig *tls.Config
}

// CertFiles name a certificate's file and its key's.
type CertFiles struct{ Cert, Key string }

// Match is how a Location's Path is compared with that of a request.
type Match int

// Ways of matching, as in nginx: an exact one wins, then the longest prefix if it is final, then the first regular expression,
// then the longest prefix.
const (
	Prefix      Match = iota // location /x
	FinalPrefix              // location ^~ /x: no regular expression is asked
	Exact                    // location = /x
	Regex                    // location ~ x
	FoldRegex                // location ~* x: without regard to case
	Named                    // location @x: for internal redirects
)

// Location is what a part of a host's paths means. At most one of Pass, Status, Metrics and Empty may be there; without any,
// files answer.
type Location struct {
	Match Match
	Path  string
	// Locations are looked at when this one matches: they are more special.
	Locations []Location
	// Internal answers internal redirects only; others get 404.
	Internal bool
	// Steps are run when the location has been found.
	Steps []Step
	// TryFiles names files, or directories if they end in a slash, the first that exists answers. The last one is none of them,
	// but where to go if none does: a path, a location's name with its @, or a status as "=404".
	TryFiles []Text

	Proxy   *Proxy // an upstream answers
	Status  bool   // the numbers of stub_status are answered
	Metrics bool   // and the same, with more, for Prometheus
	Empty   bool   // a picture of one pixel is

	Settings
	// Pos is where it was configured, for messages.
	Pos string
}

// Settings hold in a Location, or outside of all.
type Settings struct {
	Files Files
	// Header is what is added to answers.
	Header []AddHeader
	// Expires sets Expires and Cache-Control, if it is not nil.
	Expires *Expires
	// ErrorPages say what answers instead of an error. The first that names its status counts.
	ErrorPages []ErrorPage
	// RecursiveErrors lets error pages have error pages.
	RecursiveErrors bool
	// Logs are the access logs.
	Logs []Log
	// ErrorLog is where errors of requests are said; nil is where New's options say.
	ErrorLog *ErrorLog
	Gzip     *Gzip // nil compresses nothing
	// Substitution replaces strings in bodies; nil replaces nothing.
	SubFilter *SubFilter
	// NoChunks sends no answer in chunks: one whose length is not known ends with its connection (RFC 9112, 6.3).
	NoChunks bool

	// MaxBody bounds a request's body, in bytes. 0 is 1 MB, below zero is none.
	MaxBody int64
	// Requests and Conns are the limits that hold here.
	Requests []RequestLimit
	Conns    []ConnLimit
	// RequestStatus and ConnStatus answer what exceeds them; 0 is 503. DryRun only logs.
	RequestStatus, ConnStatus int
	RequestDryRun, ConnDryRun bool
	// Rate bounds the bytes of an answer per second, once RateAfter bytes have gone; both may be variables. "" is no bound.
	Rate, RateAfter Text

	// Access are rules, of which the first that fits counts.
	Access []AccessRule
	// Password asks for one; nil does not.
	Password *Password
	// AuthRequest asks another location; nil does not.
	AuthRequest *AuthRequest
	// SatisfyAny lets in whom one of Access, Password and AuthRequest does.
	SatisfyAny bool

	// Referers are the pages that may lead here, for $invalid_referer; nil is all.
	Referers *Referers
	// SecureLink is how $secure_link checks links; nil has it empty.
	SecureLink *SecureLink

	// Closed is why nothing is served here, or "": each request that would be gets 503, whatever the error pages are, and Closed is logged.
	Closed string

	RealIP RealIP
	// BodyTimeout bounds the time between two reads of a request's body, and SendTimeout that between two writes of an
	// answer. 0 is 60 seconds.
	BodyTimeout, SendTimeout time.Duration
	// KeepAliveRequests is how many requests a client's connection may serve, and KeepAliveTime for how long it may serve more; 0 is no
	// bound. They hold for servers that let handlers know of connections, as tare.Server does.
	KeepAliveRequests int
	KeepAliveTime     time.Duration
	// HideVersion leaves the version out of error pages.
	HideVersion bool
	// RelativeRedirects leaves scheme and host out of redirects; HidePort the port; PrimaryName has the host's first name there
	// instead of the request's.
	RelativeRedirects, HidePort, PrimaryName bool
	// ModifiedSince says when If-Modified-Since has a response left out.
	ModifiedSince ModifiedSince
	// NoLogNotFound keeps files that are not there out of the error log.
	NoLogNotFound bool
}

// Files says where files are.
type Files struct {
	// Root is the directory that paths are below of, and Alias what a location's path stands for. "" is none.
	Root, Alias Text
	// AliasPath is the path that Alias stands for where it is not the Location's own: that of a location around it, of which it has its alias.
	AliasPath string
	// Index are the names of files that stand for their directory. Nil is index.html.
	Index []Text
	// Listing shows a directory without an index.
	Listing bool
	// Precompressed offers x.gz where there is x beside it, and x.br and x.zst to those who take them.
	Precompressed bool
	// Symlinks says which symbolic links are followed: by default all, wherever they lead. Those in SymlinksFrom, which is the beginning of
	// paths, always are; "" is no part.
	Symlinks     files.Symlinks
	SymlinksFrom Text
	// NoEtag leaves Etag out.
	NoEtag bool
	// Types are media types by the ends of file names, without the dot, instead of Config.Types.
	Types map[string]string
	// DefaultType is that of other files; "" is text/plain.
	DefaultType string
	// Charset is added to those of CharsetTypes; nil is nginx's list.
	Charset      string
	CharsetTypes []string
}

// AddHeader adds a field to answers with the status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308, or to all.
type AddHeader struct {
	Name   string
	Value  Text // if it is empty once variables are filled in, nothing is added
	Always bool
}

// Expires says until when an answer may be kept.
type Expires struct {
	// Text is nginx's: a time, "epoch", "max", "off", "@" and a time of the day, or a variable with one.
	Text Text
	// Modified counts from the file's time.
	Modified bool
}

// ErrorPage answers instead of an error.
type ErrorPage struct {
	Statuses []int
	// Status is the one that is answered: 0 keeps the error's, and below zero it is that of the page.
	Status int
	// Target is a path, a location's name with its @, or a URL to be redirected to.
	Target Text
}

// Log is an access log.
type Log struct {
	Path   string // the file's; "" is none. The variable-free name is opened once
	Format string // LogFormats'; "" is combined
	// If logs requests only for which it is neither empty nor "0"; "" logs all.
	If Text
}

// LogFormat is what a line says.
type LogFormat struct {
	Name   string
	Escape Escape
	Text   Text
}

// Escape is how variables are written in a line, so that none ends it.
type Escape int

// Ways of escaping.
const (
	EscapeDefault Escape = iota // \xHH
	EscapeJSON                  // as in a JSON string
	EscapeNone                  // but for the ends of lines
)

// ErrorLog is where errors are written.
type ErrorLog struct {
	Path  string // "stderr" is the standard error
	Level string // "error" if it is empty
	// Next is another log for the same errors, with a level of its own; nil is none.
	Next *ErrorLog
}

// RequestLimit is limit_req.
type RequestLimit struct {
	Zone  string
	Burst int
	// NoDelay answers those within the burst at once; Delay is how many of them are. Otherwise they are kept waiting.
	NoDelay bool
	Delay   int
}

// ConnLimit is limit_conn: how many requests may be in work at a time.
type ConnLimit struct {
	Zone string
	Max  int
}

// Map is a variable whose value depends on that of a Text.
type Map struct {
	Name   string // without the dollar sign
	Source Text
	// Default is the value if no Case fits.
	Default Text
	// Cases are compared in nginx's order: exact ones, names with a star if Hostnames, regular expressions in order.
	Cases     []Case
	Hostnames bool
	// Volatile has the value be found each time that it is asked for. Otherwise it stays for the request.
	Volatile bool
	// Geo has the Cases' From be networks, of which the longest that holds the source's address counts.
	Geo bool
	// Split has them be percentages: "20.5%", "*".
	Split bool
}

// Case is a value of a Map.
type Case struct {
	From string // text, or "~regex", "~*regex"; behind a backslash it is text, whatever it begins with
	To   Text
}

// Step is what the rewrite phase does: a Set, If, Rewrite, Return or Break.
type Step interface{ step() }

// Set gives a variable a value.
type Set struct {
	Name  string // without the dollar sign
	Value Text
}

// If runs steps if a condition holds.
type If struct {
	Left Text
	// Op is "", which holds if Left is neither empty nor "0"; "=", "!="; "~", "~*" and their opposites with "!"; "-f", "-d", "-e", "-x" and
	// theirs, which ask about the file that Left names.
	Op    string
	Right Text
	Then  []Step
	// Location, if it is not nil, takes the place of the one that the step is in, from before Then on; it has the same Match and Path. That
	// is how nginx sees directives within an if that are no steps: they, and whatever the location says, make another location,
	// but without its try_files. It is looked up by nobody, and its Locations, Steps and TryFiles are empty.
	Location *Location
}

// Rewrite replaces a path that matches.
type Rewrite struct {
	Pattern string
	// To is the new path, with ?query, to which that of the request is added unless it ends in a question mark. What begins with a
	// scheme is redirected to.
	To   Text
	Flag RewriteFlag
}

// RewriteFlag says what follows a Rewrite that matched.
type RewriteFlag int

// What follows.
const (
	RewriteNext      RewriteFlag = iota // the next step
	RewriteLast                         // a location is found for the new path
	RewriteBreak                        // this location goes on, without further steps
	RewriteRedirect                     // 302
	RewritePermanent                    // 301
)

// Return ends a request. 444 closes the connection without an answer.
type Return struct {
	Status int
	Text   Text // the URL of a redirect; otherwise the body
}

// Break ends the steps.
type Break struct{}

func (Set) step()     {}
func (If) step()      {}
func (Rewrite) step() {}
func (Return) step()  {}
func (Break) step()   {}
