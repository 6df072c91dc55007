// Package bench holds the targets of the server and of the client, and the benchmarks that
// tell whether they are met. It is tests only: "make bench" runs them, and one case alone is run by
//
//	go test ./bench -run '^$' -bench 'Targets/hello-64$' -benchtime 1x
//
// Servers are processes, as users have them: those in contenders/cases, and an nginx
// that answers by itself. Clients are the benchmarks of contenders/engines/pairs, in which
// each has the same server. In each round every server of a case has its turn, and its
// figure is divided by its rival's of the same round; the target is compared with the
// median of these ratios. TARE_BENCH=short makes rounds so few and short that the
// figures are worth nothing, to see that a case runs.
package bench
