// Package upgrades holds helpers for tests of servers whose processes replace each other. A test
// starts its own program again as a server, and loads it with clients that report each lost
// request. Only test files import it.
package upgrades
