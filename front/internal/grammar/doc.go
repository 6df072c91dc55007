// Package grammar parses what stands in texts of a configuration: variables, sizes, times,
// percentages. Configurations of nginx.conf and of Go programs are read in the same way.
package grammar
