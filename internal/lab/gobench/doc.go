// Package gobench runs experiments that are Go benchmarks. An experiment is a module with a package
// for each engine. The benchmarks of all engines have the same names after a prefix.
//
// Each benchmark runs in a process of its own. A block runs every benchmark once, in random order,
// and the engines of a row one after another, so that compared processes run close in time. Reports
// show ratios within blocks, with intervals, and the published ratios. A failed benchmark is
// reported and the run continues. Instead of groups, an experiment may have targets, which package
// analyze compares as those of servers.
//
// # Glossary
//
//   - An engine is one of the compared libraries. The control is the engine that ratios refer to.
//   - A row is a benchmark's name without the prefix; a group is rows that the report shows
//     together.
//   - A record is of one process that ran one benchmark.
//   - A block is one record of every benchmark.
//   - A part is the sub-benchmark of an engine, where all engines share a package.
package gobench
