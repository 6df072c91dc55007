//go:build !amd64 && !arm64

package proc

const callNames = ""
