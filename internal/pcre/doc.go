// Package pcre matches regular expressions as nginx does with PCRE: on bytes, in the C locale, with
// the syntax and semantics of PCRE2.
//
// An expression is parsed to a tree, and compiled to a program for a backtracking matcher. Matches
// count their steps. They fail at MatchLimit, or if the Budget that they share is used up.
//
// What makes lists of names fast, as alternatives of an expression or as many expressions:
//
//   - A trie finds the alternatives that may match at a position, and the positions where a match
//     may begin, by the texts that they begin with.
//   - A Budget has an index of its last subject. Expressions that require a text without an entry
//     are not tried.
//
// After many steps a match also remembers which instructions have failed where.
//
// Compile rejects recursion, callouts, conditions, verbs such as (*SKIP) and (*UTF8), groups with
// reset numbers, options other than imsx, \c, \g, \o, \X, and \p with anything but a general
// category.
package pcre
