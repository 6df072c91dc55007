// Package core takes requests through the phases of package front. It names no feature: a feature is
// a Module, whose row in the table of package front is all that the core knows of it. A Module has an
// Effect for Settings, steps or content for a Location, and variables.
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
