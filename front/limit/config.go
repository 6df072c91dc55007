// Package limit counts by key: requests per second, and requests at a time. What it remembers is bounded.
package limit

// Config is a zone: limit_req_zone or limit_conn_zone.
type Config struct {
	Name string
	// Key is what is counted by, with variables as in front.Text. Requests with an empty key are not counted.
	Key string
	// Rate is the requests per second, for limits of requests.
	Rate float64
	// Bytes is the memory that keys take at most; 0 is 1 MB.
	Bytes int64
}
