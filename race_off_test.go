//go:build !race

package tare_test

const raceEnabled = false
