//go:build !race

package cache_test

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A hit costs one allocation: its Response.
func TestHitAllocatesItsResponse(t *testing.T) {
	if n := testkit.Allocs(1000, hitter(t)); n > 1 {
		t.Errorf("a hit allocates %v times, want once", n)
	}
}
