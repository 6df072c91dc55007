// Package lab weighs the ways of serving an application on the reader's machine,
// with real servers.
//
// Weigh carries an experiment from its file to its records: contenders are checked
// and built (lab/contender), proved to answer alike (lab/equal) and loaded in turns, side by side, in
// blocks (lab/trial). The records are compared (lab/stat) and shown
// (lab/report).
//
// It holds itself to a few rules. Ours is started as a process like any rival. What
// is not equal is not ranked. Only slices beside each other are compared, with
// intervals, and a twin of the control takes part to show what chance does.
package lab
