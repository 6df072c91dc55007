//go:build !unix

package engine

// maxConnections is "": no bound is known, so FCGI_MAX_CONNS and FCGI_MAX_REQS are left out.
func maxConnections() string { return "" }
