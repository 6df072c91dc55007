package shard

import (
	"testing"
	"unsafe"
)

// A waiting connection exactly fills a size class of the allocator.
func TestShardConnFillsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(shardConn{}); size > 144 {
		t.Errorf("%d bytes", size)
	}
}
