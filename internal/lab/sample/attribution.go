package sample

// Attribution holds what the kernel counted in a trial of its own. Counting costs time, so the
// times of such a record are meaningless and its numbers alone are used.
type Attribution struct {
	// Calls are system calls by role and name; nil if they were not counted. RoleGenerator is
	// this whole process.
	Calls map[string]map[string]uint64 `json:"calls,omitempty"`

	// Missing lists what could not be counted, and why.
	Missing []string `json:"missing,omitempty"`
}

// RoleGenerator is the role of the load generator, which does not belong to a contender.
const RoleGenerator = "generator"
