// Package syntax reads nginx's configuration language. Parse reads a file and its includes into a
// tree of directives. A Checker removes those that a Table does not allow.
//
// It knows how directives are written, and not what they mean: package nginxconf translates them.
package syntax
