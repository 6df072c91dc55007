// Package corpus contains typical nginx.conf files. Its test runs nginx and tare with the same file
// and the same applications, and compares their responses. What can be compared with nginx by text is
// a site here, and no Go test of its own.
package corpus
