// Package laws contains tests that check the project's files: its source, documents and Makefile.
package laws
