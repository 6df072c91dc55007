//go:build poison

package engine

// poison overwrites memory that is about to be reused, so that tests detect data that still refers
// to it. Tests run with -tags poison.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
