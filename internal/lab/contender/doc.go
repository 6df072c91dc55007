// Package contender builds contenders, starts each as processes of its own, and stops them in all
// circumstances.
//
// A contender is a folder with a contender.yaml. A Spec is the content of that file. Tools finds or
// unpacks the programs that it needs and builds it: the result is a Contender. A Stage starts a
// Contender as a Running: new processes in a process group and a scratch folder of their own, on a
// free port.
//
// # States of a Running
//
//	starting  launch → await (the probe has no response yet)
//	running   the probe had a response, and the port belongs to the contender
//	dead      a part ended by itself; Dead is closed
//	stopped   Stop has ended all processes and removed the scratch folder
//
// A Running that does not reach "running" within Spec.Ready is stopped by Start.
//
// # Ending processes
//
// Running.Stop sends SIGTERM and then SIGKILL to the groups. It also kills processes that moved to
// other groups, and children that became orphans. If this process is killed before, a guard process
// does the same (guard.go).
//
// # Glossary
//
//   - A part is one process that Start starts, with its descendants. Its role is nginx, front or
//     application.
//   - A front is a server between the clients and the application: nginx, or another program that
//     reads an nginx.conf.
//   - A site is a folder of files that contenders serve.
//   - A mark is an environment variable of all processes of a stage or of a Running.
//   - A stray is an orphan of a contender: a child of this process with a mark.
package contender
