// Package trial runs contenders under load so that they can be compared, and records what it
// measured.
//
// A block starts all contenders once, as fresh processes, and loads them in turns: in each round
// every contender has one slice of load, in random order, while the others sleep. Whatever drifts
// on the machine drifts for all of a round. A contender that cannot run beside others is measured
// alone, in a trial: its processes are started, loaded once and ended. Every record is written to
// the journal when its block ends.
//
// # Glossary
//
//   - A member is a contender of a block, under the name of its records. The control is the member
//     that the others are compared with.
//   - A slice is one turn of a member: a fixed time of load. A round has one slice of each member.
//   - A look reads what processes have used so far. A cost is the difference of two looks.
//   - A role is the part of a process: nginx or another front, the application, the generator.
//   - A probe is a fixed piece of work that shows how fast the processors are.
//   - A member is asleep while the others have their turns.
package trial
