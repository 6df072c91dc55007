package cli_test

import (
	"fmt"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// tries is how often a command is run whose figures other processes may spoil by taking the processors.
const tries = 10

// again PATTERN COMMAND... runs a command like exec, again and again until it succeeds and what it prints
// matches. In the variable TRY it finds how many seconds it may wait for something: more each time.
func again(ts *testscript.TestScript, neg bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for i := range tries {
		ts.Setenv("TRY", fmt.Sprint(min(1<<i, 16)))
		err := ts.Exec(args[1], args[2:]...)
		printed := ts.ReadFile("stdout") + "\n" + ts.ReadFile("stderr")
		if neg == (err != nil) && want.MatchString(printed) {
			return
		}
	}
	ts.Fatalf("%q came in none of %d runs of %q", args[0], tries, args[1:])
}
