// Package benchmark runs programs that measure themselves: Go benchmarks, and load generators whose
// own CPU time is compared. Package lab takes turns with them.
//
// The benchmarks of an experiment are a module with a package for each engine. The benchmarks of
// all engines have the same names after a prefix. Load generators have a command in each row, and
// send requests to one server. Each engine of a row runs in a process of its own.
//
// # Glossary
//
//   - An engine is one of the compared programs. The control is the engine that ratios refer to.
//   - A row is a benchmark or a load, with targets of its figures.
//   - A part is the sub-benchmark of an engine, where all engines share a package.
package benchmark
