//go:build poison

package front

// poisons is whether memory that is given back is never used again, or wrong.
const poisons = true

// poison overwrites memory that is about to be reused, so that anything which
// still points into it is seen to be wrong. Tests are run with -tags poison.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
