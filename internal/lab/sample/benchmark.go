package sample

// Benchmarks is what a run of Go benchmarks has in addition. Its conditions are benchmarks: a
// scenario's name without the engine's prefix, and GOMAXPROCS.
type Benchmarks struct {
	Groups    []Group              `json:"groups,omitempty"` // of the benchmarks that take part
	Procs     []int                `json:"gomaxprocs,omitempty"`
	Published []PublishedBenchmark `json:"published,omitempty"`
	Why       string               `json:"why,omitempty"` // why figures may differ from the published ones
}

// Group is benchmarks that the report shows together.
type Group struct {
	Title string   `json:"title" yaml:"title"`
	About string   `json:"about" yaml:"about"`
	Rows  []string `json:"rows" yaml:"rows"` // names without "Benchmark" and the engine's prefix
}

// PublishedBenchmark is a benchmark's figures in the write-up, for each operation.
type PublishedBenchmark struct {
	Name   string  `json:"name"` // without "Benchmark"
	Procs  int     `json:"gomaxprocs"`
	Ns     float64 `json:"nsPerOp"`
	Bytes  float64 `json:"bytesPerOp"`
	Allocs float64 `json:"allocsPerOp"`
}
