package topology

import (
	"bytes"
	"strconv"
	"strings"
)

// memoryFrom reads a node's meminfo, or the machine's. Of a node the kernel does
// not say what is available, so it is told about as the machine's is computed
// (si_mem_available in mm/show_mem.c): what is free, the page cache, and what
// the kernel would give back of its own; without the watermarks, which it does
// not say either.
func (n *Node) memoryFrom(file []byte) {
	facts := meminfo(file)
	n.MemTotal, n.MemFree = facts["MemTotal"], facts["MemFree"]
	if available, said := facts["MemAvailable"]; said {
		n.MemAvailable = available
	} else if _, said := facts["Active(file)"]; said {
		n.MemAvailable = facts["MemFree"] + facts["Active(file)"] + facts["Inactive(file)"] + facts["SReclaimable"]
	}
}

// meminfo reads the lines "MemTotal: 8 kB" as bytes. A node's file has "Node 0 "
// in front of each, /proc/meminfo has not. Lines without a unit are counts, and
// left out.
func meminfo(file []byte) map[string]int64 {
	facts := map[string]int64{}
	for line := range bytes.Lines(file) {
		words := strings.Fields(string(line))
		if len(words) > 2 && words[0] == "Node" {
			words = words[2:]
		}
		if len(words) != 3 || words[2] != "kB" {
			continue
		}
		if kib, err := strconv.ParseInt(words[1], 10, 53); err == nil && kib >= 0 {
			facts[strings.TrimSuffix(words[0], ":")] = kib << 10
		}
	}
	return facts
}
