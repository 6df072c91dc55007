package proc

import _ "embed"

// callNames is generated from golang.org/x/sys/unix by go test -run TestCallNames -update.
//
//go:embed callnames_amd64.txt
var callNames string
