// Package clients tells clients apart: by their network (geo), by shares (split_clients), and by a
// cookie (userid).
package clients
