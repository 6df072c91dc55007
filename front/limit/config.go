// Package limit counts requests by key: per second, and in progress. Its memory is limited.
package limit

// Config is a zone: limit_req_zone or limit_conn_zone.
type Config struct {
	Name string
	// Key is the key to count by, with variables as in front.Text. Requests with an empty key are
	// not counted.
	Key string
	// Rate is the limit in requests per second, for limit_req_zone.
	Rate float64
	// Bytes limits the memory of keys; 0 is 1 MB.
	Bytes int64
}
