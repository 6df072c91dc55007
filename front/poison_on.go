//go:build poison

package front

// poisons: memory of free lists is never reused, or overwritten first.
const poisons = true

// poison overwrites memory that is about to be reused, so that later uses of it show wrong data.
// Tests run with -tags poison.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
