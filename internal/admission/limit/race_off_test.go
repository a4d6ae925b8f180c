//go:build !race

package limit_test

const raceDetector = false

const slack = 0
