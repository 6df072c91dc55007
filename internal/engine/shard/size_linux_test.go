package shard

import (
	"testing"
	"unsafe"
)

// A waiting connection exactly fills a size class of the allocator.
func TestShardConnFillsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(shardConn{}); size > 160 {
		t.Errorf("%d bytes", size)
	}
}

// What a connection with hooks holds in addition.
func TestHookConnFillsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(hookConn{}); size > 128 {
		t.Errorf("a hookConn has %d bytes", size)
	}
	if size := unsafe.Sizeof(placement{}); size > 24 {
		t.Errorf("a placement has %d bytes", size)
	}
}
