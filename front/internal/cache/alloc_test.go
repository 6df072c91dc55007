//go:build !race

package cache_test

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A hit costs one allocation: its Response.
func TestHitAllocatesItsResponse(t *testing.T) {
	testkit.Between(t, testkit.Allocs(1000, hitter(t)), 0, 1, "allocations of a hit")
}
