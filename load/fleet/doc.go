// Package fleet runs a plan with several agents, on this machine and on others, as if it were one
// process: it divides the plan, starts the agents together and joins what they measure.
//
// A [Host] is where an agent runs. The channel to an agent is the input and output of a command:
// the agent itself, ssh, or kubectl. sshd and Kubernetes place, start and end the processes.
//
// # Losses
//
// An agent is lost if its process or channel ends, or if nothing arrives from it for
// Options.Silence. Then it ends by itself, too. Its reported seconds stay in the figures, and the
// Result names it. Options.OnLoss decides whether the run goes on.
//
// # Glossary
//
//   - agent: a process of the generator that a controller commands; see package agent
//   - controller: the process that holds a Fleet
//   - link: the channel to an agent, with an estimate of its clock
package fleet
