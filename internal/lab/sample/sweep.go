package sample

import (
	"time"
)

// The axes of sweeps.
const (
	GOMAXPROCS  = "gomaxprocs" // of the application, or its number of processes
	Connections = "connections"
	Workers     = "workers" // of nginx
)

// Axes returns all axes.
func Axes() []string { return []string{GOMAXPROCS, Connections, Workers} }

// Sweep is a series of trials along one axis. Tables do not include them.
type Sweep struct {
	Axis       string        `json:"axis"`
	Conditions []Condition   `json:"conditions"` // from the lowest value of the axis
	Contenders []string      `json:"contenders"` // names in the entrants' order
	Blocks     int           `json:"blocks"`
	Measure    time.Duration `json:"measureNs"`
}
