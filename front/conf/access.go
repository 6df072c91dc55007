package conf

import (
	"crypto/x509"
	"net/netip"
	"time"
)

// AccessRule allows or denies access.
type AccessRule struct {
	Deny bool
	// Net is the clients' network; the zero Prefix contains all clients. Unix is for clients of a
	// unix socket.
	Net  netip.Prefix
	Unix bool
}

// Password is HTTP's basic authentication (RFC 7617).
type Password struct {
	Realm Text // "off" disables it
	File  Text // lines of name:hash, as htpasswd writes them
}

// AuthRequest makes a subrequest to decide on access. A status from 200 to 299 grants it. 401 and
// 403 are sent to the client, 401 with its WWW-Authenticate. Anything else is an error, 500.
//
// The subrequest is a GET without the client's body and without fields about the body, conditions
// or ranges. It runs in the path's location, even an Internal one, but without access rules and
// filters. It shares the variables of the request, and may set them.
type AuthRequest struct {
	// URI is a path without variables and query. "" makes no subrequest, but declares the variables
	// of Set.
	URI string
	// Set are variables that are set after the subrequest. Their values may use its $status,
	// $upstream_http_NAME and so on, also if a bound handler responded.
	Set []Set
}

// Referers are the valid pages with links to a location. $invalid_referer is "1" for requests from
// others, else empty.
type Referers struct {
	// None allows requests without a Referer, and Blocked those whose Referer is not an http or
	// https URL.
	None, Blocked bool
	// Names are names of hosts as in Host.Names. A path may follow: "example.org/galleries/"
	// matches URLs with that prefix. Ports are ignored.
	Names []string
	// Patterns are regular expressions, without "~", for the part of a URL after the scheme: host,
	// port, path and query. Case is ignored.
	Patterns []string
}

// SecureLink checks links that an application has made, either by Link and MD5 or by Secret.
type SecureLink struct {
	// Link evaluates to an MD5 sum in base64url, optionally with a comma and the expiry time in
	// seconds since 1970: "$arg_md5,$arg_expires". The variable $secure_link is "1" if the sum is
	// correct, "0" if it is correct and the link has expired, else empty.
	Link Text
	// MD5 is the text of the sum, with a secret: "$secure_link_expires$uri secret".
	MD5 Text
	// Secret checks URIs "/prefix/SUM/LINK", where SUM is the hexadecimal MD5 sum of LINK and
	// Secret. $secure_link is LINK if the sum is correct, else empty.
	Secret string
}

// RealIP takes the client's address from trusted proxies.
type RealIP struct {
	From []netip.Prefix
	Unix bool // trusts clients of a unix socket
	// Header is the field with the address: "" is "X-Real-IP". It may be "X-Forwarded-For", or
	// "proxy_protocol": see front.WithProxyHeader.
	Header string
	// Recursive takes the last address that is not trusted, instead of the last one.
	Recursive bool
}

// ClientCerts configures which client certificates a Host accepts. Other requests get 495 or 496,
// which clients see as 400.
type ClientCerts struct {
	// Mode is how requests without a valid certificate are treated, in the words of
	// ssl_verify_client. "" requires a certificate. With "optional" it must be valid if there is
	// one, and with "optional_no_ca" its authority may be unknown.
	Mode string
	// Trusted are certificates of authorities. Self-signed ones are trust anchors; others may be
	// intermediates.
	Trusted []*x509.Certificate
	// Depth bounds the intermediate certificates of a chain.
	Depth int
	// Revocations are revocation lists; nil disables the check. Otherwise each authority of a chain
	// must have a valid list.
	Revocations []*x509.RevocationList
}

// UserID identifies clients by a cookie of 16 bytes, as nginx's module userid does.
type UserID struct {
	// Mode is "on", "v1" for the older form of the ID, or "log" to set no cookie.
	Mode string
	// Name is the cookie's; "" is "uid". Path is "/" by default.
	Name, Path, Domain string
	// Expires is the cookie's lifetime: 0 is the client's session, and a negative value the
	// longest.
	Expires time.Duration
	// Mark is a letter, digit or "=" in the cookie's padding: cookies without it are sent again.
	Mark string
	// Flags are attributes: secure, httponly, samesite=strict, samesite=lax, samesite=none.
	Flags []string
	// Service is the first part of IDs. Nil is the server's address, or 0 with "v1".
	Service *uint32
	// P3P is the value of a response's P3P field; "" omits it.
	P3P string
}
