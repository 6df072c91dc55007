// Package pcre matches regular expressions as nginx does by PCRE: on bytes, in the C locale, with the syntax and the meaning of PCRE2.
//
// An expression is parsed to a tree. If package regexp means the same by it, that matches, in time that is linear in the subject. All else,
// such as lookarounds, references, possessive quantifiers and atomic groups, is compiled to a program for a matcher that backtracks. Both take
// their steps from a budget that the caller gives them, and fail when it is used up.
//
// Package regexp matches runes. For it each byte is the rune of the same number: a subject that is not ASCII is converted before, and offsets
// are converted back. Expressions that begin with (*UTF8) or (*UTF) match runes indeed, and fail on subjects that are not UTF-8.
//
// Recursion, callouts, backtracking verbs such as (*SKIP), \X, and conditions on recursion are not supported: Compile rejects them.
package pcre
