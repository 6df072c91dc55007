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
// A request for a proxy with a cache passes these files, in this order:
//
//	exchange.go                the phases
//	proxy.go                   serve, and serveCached, which sends what the others return
//	proxycache.go              fetchCached: the key, then what follows until there is a response
//	internal/cache/find.go     Find: a stored response or a Miss, by the states of session.go
//	proxyrequest.go            newRequest: what the upstream receives
//	internal/cache/find.go     Miss.Send: what becomes of the upstream's response
//	internal/fetch/request.go  Do: servers, one after another, by package internal/client
//	internal/cache/response.go Send
//
// # Glossary
//
// Words beyond those of nginx's documentation and the RFCs:
//
//	proxy            a compiled Proxy: the content of a location with proxy_pass or fastcgi_pass
//	upstream request what a proxy sends for an exchange; it may take several attempts
//	attempt          one try of an upstream request on one server
//	exchange         a request and its response on their way through the phases
//	content          what responds in the content phase
//	bound handler    an http.Handler of the same program that is an upstream: see Bind
//	plan             a compiled Config
//	state            what plans share: each entry of a registry lives as long as a plan uses it
//	slot             the index of a variable in an exchange, or of a module
//	module           a feature in a file of its own, and a row in modules
//	poison           a build tag: memory of free lists is never reused, or overwritten
package front
