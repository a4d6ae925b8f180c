//go:build race

package limit_test

// raceDetector makes simulations ten times slower. They run in one goroutine, so
// that there is nothing for it to find: with it the longest ones are left out, and
// of the unseen backends nine in ten; rough conditions are played with one seed.
const raceDetector = true

// slack is by how much the figure of one seed may be below that of several.
const slack = 0.1
