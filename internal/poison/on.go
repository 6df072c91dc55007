//go:build poison

package poison

// Enabled reports whether this build has the tag poison.
const Enabled = true
