package exchange

import (
	"testing"
	"unsafe"
)

// An exchange exactly fills its size class, except for the eight bytes of the allocator's header.
func TestExchangeFillsItsSizeClass(t *testing.T) {
	const class, header = 704, 8
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	if size := int(unsafe.Sizeof(Exchange{})) + header; size > class || size <= class-int(unsafe.Sizeof("")) {
		t.Errorf("%d bytes, for a class of %d", size, class)
	}
}
