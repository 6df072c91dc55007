// Command tare weighs the ways of serving an HTTP application.
package main

import (
	"os"

	"github.com/tarehq/tare/internal/cli"
)

func main() { os.Exit(cli.Main()) }
