// Package accesslog has the files of logs, their buffers, and how values are escaped in lines.
package accesslog
