package hpack

import (
	"testing"

	"sluice/internal/message"
)

// holdHead checks what is true of every head: the ID of each field, the size, and
// that no slice has room to grow into its neighbour.
func holdHead(t *testing.T, h *Head) {
	t.Helper()
	size := 0
	for _, f := range h.Fields {
		size += len(f.Name) + len(f.Value) + entryOverhead
		if f.ID != message.Lookup(f.Name) {
			t.Errorf("%s has the ID of %q", f.Name, f.ID)
		}
		if len(f.Name) != cap(f.Name) && len(f.Name) > 0 || len(f.Value) != cap(f.Value) && len(f.Value) > 0 {
			t.Errorf("%s: %s could be appended to", f.Name, f.Value)
		}
	}
	if h.Size != size {
		t.Errorf("size %d, want %d", h.Size, size)
	}
}
