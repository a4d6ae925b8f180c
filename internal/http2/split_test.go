package http2

import (
	"strings"
	"testing"
)

// TestEverySplit plays the transcripts with the client's bytes coming one by one,
// and in pieces of other sizes: what a connection does must not depend on how they
// were cut. Transcripts of floods are left to those of one size.
func TestEverySplit(t *testing.T) {
	for name, text := range transcripts(t) {
		if strings.Contains(text, "repeat") || strings.Contains(text, "x16") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, split := range []int{1, 2, 3, 5, 7, 8, 9, 10, 13, 24} {
				run(t, text, split)
			}
		})
	}
}
