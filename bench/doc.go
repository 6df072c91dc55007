// Package bench defines performance targets of the server and the client, with benchmarks that
// check them. It has only tests. "make bench" runs them all, and this command runs one case:
//
//	go test ./bench -run '^$' -bench 'Targets/hello-64$' -benchtime 1x
//
// Servers are processes: those in contenders/cases, and an nginx without upstream. Clients are the
// benchmarks of contenders/engines/pairs, in which each has the same server.
//
// Servers under one load are measured like contenders of the lab: side by side, in slices,
// corrected by the probe (docs/lab.md). In all other cases, every server or client of a case has a
// turn in each round, and its figure is divided by its rival's of the same round; the target
// applies to the median of these ratios. TARE_BENCH=short runs only a few short rounds, to check
// that a case works. Its figures are meaningless.
package bench
