// Package transform changes the bodies of responses and their types: compression, decompression,
// sub_filter, added bodies and charsets.
package transform
