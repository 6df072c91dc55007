// Package front does in a Go process what people put a web server in front of it for: virtual hosts, routing, upstreams,
// a cache, compression, limits and logs, as nginx does them. It is an http.Handler that works on any http.Server.
//
//	handler, err := front.New(front.Config{…}, front.Bind("app", mux))
//
// A Config is plain: package nginxconf makes one of an nginx.conf, and a program may write its own. It is compiled to
// a plan, in which nothing has to be looked up by name any more, and which never changes. What must outlive a reload, such as the
// health of upstreams, caches and limits, is state, which plans share.
//
// # Phases
//
// A request passes these phases, in this order. Code, logs and documents call them by these names.
//
//	host      the virtual host is found, by the address that was connected to and by name
//	rewrite   set, if, rewrite and return are run: the host's, and then the location's, which is found in between
//	limit     limit_req, limit_conn, the size of the body
//	access    allow and deny, passwords, and a subrequest that asks who may come in
//	content   try_files; then an upstream, a bound handler, or a file answers
//	filter    the answer's head is changed, its body compressed
//	log       a line is written
//
// An internal redirect, such as that to an error page, goes back to finding a location.
package front
