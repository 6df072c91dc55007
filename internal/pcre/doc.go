// Package pcre matches regular expressions as nginx does with PCRE: on bytes, in the C locale, with
// the syntax and semantics of PCRE2.
//
// An expression is parsed to a tree. If package regexp gives the tree the same meaning, it does the
// matching, in time linear in the subject. Everything else, such as lookarounds, backreferences,
// possessive quantifiers and atomic groups, is compiled to a program for a backtracking matcher.
// Both charge their steps to a budget of the caller, and fail when it is used up.
//
// Package regexp matches runes. Each byte becomes the rune with the same number: a subject that is
// not ASCII is converted first, and offsets are converted back. Expressions that begin with (*UTF8)
// or (*UTF) match real runes, and fail on subjects that are not UTF-8.
//
// Compile rejects recursion, callouts, backtracking verbs such as (*SKIP), \X, and conditions on
// recursion.
package pcre
