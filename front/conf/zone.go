package conf

// Zone is the memory of a limit by key: limit_req_zone or limit_conn_zone.
type Zone struct {
	Name string
	// Key is the key to count by. Requests with an empty key are not counted.
	Key Text
	// Rate is the limit in requests per second, for limit_req_zone.
	Rate float64
	// Bytes limits the memory of keys; 0 is 1 MB.
	Bytes int64
}
