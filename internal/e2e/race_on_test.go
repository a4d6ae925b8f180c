//go:build race

package e2e

// raceDetector is true in tests that are built with the race detector.
const raceDetector = true
