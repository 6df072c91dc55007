//go:build poison

package fcgiclient

// poison overwrites memory before its reuse, so that a stale reference to it shows. Tests run with
// -tags poison.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
