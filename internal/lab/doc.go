// Package lab measures on the user's machine what each way of serving an application costs.
//
// Weigh carries out an experiment:
//
//   - Package contender builds the contenders and starts them as processes.
//   - Package equal compares their responses. A contender with a wrong response is left out.
//   - Package trial loads the contenders in turns, in blocks, and records what they cost. Some programs
//     measure themselves; cases of package events count what clients receive.
//   - Package sample has the records, and the journal to which they are written at once.
//   - Package analyze computes tables, ratios and differences from the records, by package stat; package
//     report shows all of it.
//
// Only measurements that are close in time are compared. Servers of this project run as processes,
// like all other contenders. A twin of the control takes part and shows what chance does.
//
// # Glossary
//
//   - A contender is a server, with everything in front of it. The control is the contender that
//     the others are compared with; the twin is the control again, under another name.
//   - A condition is a number of cores and connections, and a rate if it is fixed. A scenario is a
//     condition with its own version of HTTP, path, streams or handshakes.
//   - A block starts all contenders once and loads them in rounds. In each round every contender
//     has one slice of load. A trial measures one contender alone.
//   - CPU time per request is called weight in identifiers.
package lab
