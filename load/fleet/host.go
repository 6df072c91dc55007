package fleet

import (
	"context"
	"fmt"
	"os/exec"
)

// Host is where an agent runs.
type Host struct {
	Name string
	// Command returns a new command whose standard input and output are those of an agent.
	Command func(context.Context) (*exec.Cmd, error)
	// Install is called if the first line of the output begins with "tare-missing", with the rest
	// of that line. Then Command is called once more. It may be nil.
	Install func(ctx context.Context, line string) error
	// Explain returns why the agent may have ended, or nothing if that is unknown. It may be nil.
	Explain func(context.Context) string
}

const missing = "tare-missing" // begins the output of a host that has no agent yet

// Local returns a host on this machine, whose agents are processes of the program.
func Local(name, program string) Host {
	return Host{Name: name, Command: func(context.Context) (*exec.Cmd, error) {
		c := exec.Command(program, "agent")
		separate(c)
		return c, nil
	}}
}

// uniqueNames appends numbers to the names of hosts that occur more than once.
func uniqueNames(hosts []Host) []string {
	count, used := make(map[string]int), make(map[string]int)
	for _, h := range hosts {
		count[h.Name]++
	}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
		if count[h.Name] > 1 {
			used[h.Name]++
			names[i] = fmt.Sprintf("%s-%d", h.Name, used[h.Name])
		}
	}
	return names
}
