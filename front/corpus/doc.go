// Package corpus contains typical nginx.conf files. Its test runs nginx and tare with the same file
// and the same applications, and compares their responses.
package corpus
