// Package front does in a Go process what nginx does in front of an application: virtual hosts,
// routing, upstreams, a cache, compression, limits and logs. It is an http.Handler for any
// http.Server.
//
//	handler, err := front.New(conf.Config{…}, front.Bind("app", mux))
//
// A conf.Config is plain data: package nginxconf makes one of an nginx.conf, and a program may
// write its own. New and Reload compile it to a plan, which never changes and needs no lookups by
// name. The health of upstreams, caches, limits and logs must outlive a reload: they are the state,
// which plans share.
//
// # Phases
//
// A request passes these phases, in this order. Code, logs and documents use these names.
//
//	host      finds the virtual host, by the local address and by name
//	rewrite   runs set, if, rewrite and return of the host, finds the location, and runs its steps
//	limit     limit_req, limit_conn, and the size of the body
//	access    allow and deny, passwords, and auth_request
//	content   try_files; then an upstream, a bound handler or a file responds
//	filter    changes the response's header, compresses its body
//	log       writes lines to access logs
//
// An internal redirect, such as that to an error page, returns to the rewrite phase.
//
// A bound handler is an http.Handler of the same program that is an upstream: see Bind.
//
// # Rooms
//
// The phases are in package internal/core. Each feature is a module of a package above it, and a row
// of modules: guard, static, proxy, transform, clients and observe. This package is what programs
// import.
package front
