//go:build !unix

package acme

import "os"

// lockFile does nothing: front/server needs a Unix system.
func lockFile(*os.File) error { return nil }

func syncDirectory(string) error { return nil }

func checkPrivate(string, int) error { return nil }
