//go:build !unix

package fastcgi

// maxConnections returns "", because the limit is unknown. FCGI_MAX_CONNS and FCGI_MAX_REQS are
// omitted.
func maxConnections() string { return "" }
