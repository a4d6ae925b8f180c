package limit

import "math"

// State is what a controller learned. It is plain figures, so that it can lie in
// shared memory or in a file as JSON. Zero means: not known.
type State struct {
	Centre     float64 `json:"centre"`            // the limit without its dither
	Supported  float64 `json:"supported"`         // the last centre that evidence supported
	Mean       float64 `json:"mean_seconds"`      // E[R], s
	Square     float64 `json:"square_seconds2"`   // E[R²], s²
	Dispersion float64 `json:"dispersion"`        // of the measured elasticity over that of a Poisson stream
	Throughput float64 `json:"throughput"`        // good completions per second
	Ceiling    float64 `json:"ceiling"`           // where throughput broke down; 0: nowhere
	LongMean   float64 `json:"long_seconds"`      // gradient2: response time over minutes, s
	Objective  float64 `json:"objective_ceiling"` // target: the highest limit that holds it; 0: none needed
}

// sane is a figure of a state, or what stands for it when it makes no sense: a
// state may come from another version, or from a damaged file.
func sane(x, low, high, otherwise float64) float64 {
	if math.IsNaN(x) || x < low || x > high {
		return otherwise
	}
	return x
}
