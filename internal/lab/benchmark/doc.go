// Package benchmark runs experiments whose programs measure themselves: Go benchmarks, and load
// generators whose own CPU time is compared. It is a source of records, and package analyze
// compares these like those of servers.
//
// The benchmarks of an experiment are a module with a package for each engine. The benchmarks of
// all engines have the same names after a prefix. Load generators have a command in each row, and
// send requests to one server. Each engine of a row runs in a process of its own. A block runs
// every row once, in random order, and the engines of a row one after another, so that compared
// processes run close in time. A failed process is reported and the run continues.
//
// # Glossary
//
//   - An engine is one of the compared programs. The control is the engine that ratios refer to.
//   - A row is a benchmark or a load, with targets of its figures.
//   - A record is of one process that ran one row.
//   - A block is one record of every row.
//   - A part is the sub-benchmark of an engine, where all engines share a package.
package benchmark
