// Package poison overwrites memory before its reuse, so that a stale reference to it shows. It does
// so in builds with the tag poison only. Tests run with that tag.
package poison

// Fill overwrites b. Without the tag poison it does nothing.
func Fill(b []byte) {
	if !Enabled {
		return
	}
	for i := range b {
		b[i] = 0xdb
	}
}
