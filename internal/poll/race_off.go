//go:build !race && linux

package poll

func received(int) {}
func sending()     {}
