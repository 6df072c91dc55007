// Package agent is one process of a load test that several processes run together. [Serve] reads a
// plan on its input, waits for the start, writes a record of each second and ends with its result.
// It listens nowhere, and ends when its input does.
//
// Messages are JSON objects, one a line. docs/load-many.md describes them.
//
// An agent passes through these states; each message of the controller moves it on:
//
//	idle ──plan──▶ connecting ──connections are open──▶ ready ──start──▶ running ──result──▶ idle
//
// The message "stop" ends the run early, in any state. The agent replies to pings in all states.
//
// Times are those of the agent's own monotonic clock, in nanoseconds since the process began. A
// wrong date on one of the machines has no effect.
package agent
