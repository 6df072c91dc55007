// Package nginxconf parses nginx's configuration language into a conf.Config.
//
// Directives that nginx supports and this package does not are errors with file, line and
// directive. With Options.Lenient they are left out and listed. The table directives.txt defines
// for each directive whether it is supported, ignored or rejected.
//
// Parsing has three steps, each of which is independent of the next:
//
//	syntax.Parse     text -> tree of directives with their includes
//	syntax.Checker   tree -> tree of known, well-formed directives at allowed places
//	translator       tree -> conf.Config and Process; a scope inherits settings
//
// The translator's methods have the names of what they translate.
//
// Nothing is compiled: front.New finds unknown variables and invalid regular expressions.
//
// Words of this package:
//
//   - supported, ignored, rejected: what the translator does with a directive.
//   - level: where a directive stands, which nginx's documentation calls its context.
//   - closed: a block in which a directive was left out that may decide which clients get which
//     response. Requests get 503 there.
package nginxconf
