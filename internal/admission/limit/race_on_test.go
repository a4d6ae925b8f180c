//go:build race

package limit_test

// raceDetector slows simulations tenfold, and they have one goroutine: with it
// only every tenth of them runs, so that the code is seen to be the same.
const raceDetector = true
