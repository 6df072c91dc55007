// Package corpus has nginx.conf files of the kinds that people write, and a test that asks nginx and tare, each with the
// same file before the same applications, and compares what they answer.
package corpus
