// Package testkit holds what the tests of several rooms need. Only test files
// import it.
package testkit
