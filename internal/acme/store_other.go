//go:build !unix

package acme

import "os"

// lockFile does nothing: only the locks of this process count.
func lockFile(*os.File) error { return nil }

func syncDirectory(string) error { return nil }

func checkPrivate(string, int) error { return nil }
