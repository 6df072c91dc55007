// Package gobench runs experiments that are Go benchmarks: a module with a package for
// each engine that is compared, whose benchmarks have the same names but for a prefix.
//
// Each benchmark runs as a process of its own, block after block in random order, so that
// those that are compared run soon after each other and share nothing but the machine.
// The rules are the lab's: ratios within a block, with intervals, beside the published
// ones; what fails is named and left out, and the rest goes on.
package gobench
