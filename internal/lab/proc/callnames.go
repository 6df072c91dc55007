package proc

import (
	"embed"
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// callNames is generated from golang.org/x/sys/unix by go test -run TestCallNames -update.
//
//go:embed callnames_*.txt
var callNames embed.FS

// CallNames returns the names of system calls by their numbers on this architecture. It is empty
// for architectures without a table.
func CallNames() map[int]string {
	names := make(map[int]string)
	table, _ := callNames.ReadFile("callnames_" + runtime.GOARCH + ".txt")
	for line := range strings.Lines(string(table)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("proc: BUG: a line of the table of system calls is %q", line))
		}
		names[n] = name
	}
	return names
}
