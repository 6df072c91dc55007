// Package proxy forwards requests to upstreams, which are servers or handlers of the same program. A
// response may come from a cache, or be fetched in slices. Copies of requests may go to mirrors.
//
// # Glossary
//
//	proxy            a compiled Proxy: the content of a location with proxy_pass or fastcgi_pass
//	upstream request what a proxy sends for an exchange; it may take several attempts
//	attempt          one try of an upstream request on one server
//	bound handler    an http.Handler of the same program that is an upstream: see front.Bind
package proxy
