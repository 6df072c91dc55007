// Package bench has the targets of the server and of the client, and the benchmarks that check
// them. It has only tests: "make bench" runs them, and this command runs one case:
//
//	go test ./bench -run '^$' -bench 'Targets/hello-64$' -benchtime 1x
//
// Servers are processes: those in contenders/cases, and an nginx without upstream. Clients are the
// benchmarks of contenders/engines/pairs, in which each has the same server. In each round every
// server of a case has its turn, and its figure is divided by its rival's of the same round. The
// target is compared with the median of these ratios. TARE_BENCH=short makes only a few short
// rounds, to check that a case runs; its figures are meaningless.
package bench
