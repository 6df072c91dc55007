// Package contender gets the ways of serving ready, starts each as processes of its
// own, and stops them whatever happens.
//
// A contender is a folder with a contender.yaml. Spec is that file, plain. Tools
// finds or brings what it needs and makes a Contender of it: built, with the
// versions of all it consists of. A Stage starts a Contender as a Running: fresh
// processes in a process group of their own, in a scratch folder of their own, on a
// free port.
//
// # Nothing is left behind
//
// Running.Stop ends the group and all that descends from it, and asks the kernel
// whether that is so. Should this process die first, by a panic or a kill that
// cannot be caught, a guard process notices and does the same (guard.go).
package contender
