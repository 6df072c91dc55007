// Package testkit holds helpers for the tests of several packages. Only test files import it.
package testkit
