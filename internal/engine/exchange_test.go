package engine

import (
	"testing"
	"unsafe"
)

// An exchange fills the size class that it is allocated in, but for the eight bytes that
// say where its pointers are, and no more.
func TestExchangeFillsItsClass(t *testing.T) {
	const class, header = 704, 8
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("sizes are those of 64 bits")
	}
	if size := int(unsafe.Sizeof(exchange{})) + header; size > class || size <= class-int(unsafe.Sizeof("")) {
		t.Errorf("%d bytes, for a class of %d", size, class)
	}
}
