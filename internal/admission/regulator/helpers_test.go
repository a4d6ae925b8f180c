package regulator

import (
	"io/fs"
	"strconv"
	"syscall"

	"sluice/internal/admission/limit"
)

func itoa(n int) string { return strconv.Itoa(n) }

// blocks is what a file takes, in units of 512 bytes (stat(2)).
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks }

// sampleOf is a sample in which nothing ended.
func sampleOf(span, held, bound float64, inFlight, queue int) limit.Sample {
	return limit.Sample{Span: span, Held: held, Bound: bound, InFlight: inFlight, Queue: queue}
}
