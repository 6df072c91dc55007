package http3

import "github.com/quic-go/quic-go/http3/qlog"

// IsMalformed is isMalformed with names and values.
func IsMalformed(fields ...string) bool {
	var all []qlog.HeaderField
	for i := 0; i < len(fields); i += 2 {
		all = append(all, qlog.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return isMalformed(all)
}
