//go:build !race

package cache_test

import "testing"

// A hit costs one allocation: its Response.
func TestHitAllocatesItsResponse(t *testing.T) {
	if n := testing.AllocsPerRun(1000, hitter(t)); n > 1 {
		t.Errorf("a hit allocates %v times, want once", n)
	}
}
