// Package static serves files: root and alias, index, listings, try_files, files that are compressed
// already, and an empty image.
package static
