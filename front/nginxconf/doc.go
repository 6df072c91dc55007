// Package nginxconf reads nginx's configuration language and makes a front.Config of it.
//
// What nginx knows and is not done here is an error that names file, line and directive, or, if Options.Lenient says so, is left
// out and listed. directives.txt says what becomes of each directive.
//
// Reading has three steps, each of which knows nothing of the next:
//
//	lexer, parser   text      -> a tree of directives, whose includes are read
//	checker         tree      -> a tree of what is known, allowed there and well-formed, by the table
//	translator      tree      -> front.Config and Process; a scope knows what a block inherits
//
// Nothing is compiled: whether a variable exists, or a regular expression is one, is seen by front.New.
package nginxconf
