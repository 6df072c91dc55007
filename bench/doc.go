// Package bench defines performance targets of the server in memory, and of the client, with
// benchmarks that check them. The other targets are experiments (experiments/targets). It has only
// tests. This command runs one case:
//
//	go test ./bench -run '^$' -bench 'Targets/client-p1' -benchtime 1x
//
// Clients are the benchmarks of contenders/engines/pairs, in which each has the same server. Every
// server or client of a case has a turn in each round, and its figure is divided by its rival's of
// the same round; the target applies to the median of these ratios. TARE_BENCH=short runs only a
// few short rounds, to check that a case works. Its figures are meaningless.
package bench
