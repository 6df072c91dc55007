// Package core takes requests through the phases of package front. It names no feature: a feature is
// a Module, whose row in the table of package front is all that the core knows of it. A Module has an
// Effect for Settings, steps or content for a Location, and variables.
//
// A request for a proxy with a cache passes these files below front/internal, in this order:
//
//	core/exchange.go           the phases
//	proxy/proxy.go             serve, and serveCached, which sends what the others return
//	proxy/cache.go             fetchCached: the key
//	cache/session.go           Find: a stored response, or what becomes of the upstream's
//	proxy/request.go           newRequest: what the upstream receives
//	fetch/request.go           Do: servers, one after another, by package internal/client
//	cache/response.go          Send
//
// # Glossary
//
// Words beyond those of nginx's documentation and the RFCs:
//
//	Exchange         a request and its response on their way through the phases
//	Content          what responds in the content phase
//	Plan             a compiled Config
//	State            what plans share: each entry of a registry lives as long as a plan uses it
//	Module           a feature, in a package above this one
//	errorPage, host  a type that has the name of one of package conf is that, compiled
//	Slot             the index of a variable in an Exchange, or of a Module
//	Stage            changes the bytes of a body on their way to the client
//	poison           a build tag: memory of free lists is never reused, or overwritten
package core
