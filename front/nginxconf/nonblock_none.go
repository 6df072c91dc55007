//go:build !unix

package nginxconf

const nonblock = 0
