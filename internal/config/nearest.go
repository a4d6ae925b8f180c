package config

import "strings"

// maxNameBytes bounds what is compared: a name longer than this is no slip of
// the pen, and the distance costs the product of the lengths.
const maxNameBytes = 64

// nearest finds the name that was probably meant: the one with the fewest slips
// (a letter too much, too few, another, or two swapped), if they are few for its
// length; else the only one that begins what was written, or is begun by it.
func nearest(written string, names []string) (string, bool) {
	if len(written) > maxNameBytes {
		return "", false
	}
	plain := plainName(written)
	best, slips := "", maxNameBytes
	var kin []string
	for _, name := range names {
		if len(name) > maxNameBytes {
			continue
		}
		candidate := plainName(name)
		allowed := max(len(plain), len(candidate)) / 3
		if n := distance(plain, candidate); n <= max(allowed, 1) && n < slips && n < len(candidate) {
			best, slips = name, n
		}
		begins := strings.HasPrefix(candidate, plain) || strings.HasPrefix(plain, candidate)
		if begins && min(len(plain), len(candidate)) >= 3 {
			kin = append(kin, name)
		}
	}
	if best == "" && len(kin) == 1 {
		best = kin[0]
	}
	return best, best != ""
}

// plainName takes away what differs between spellings of one name: firstByte,
// first-byte, first_byte.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// distance counts the slips between two names: optimal string alignment, that is
// Levenshtein's distance with a swap of neighbours as one slip.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// maxListed keeps a list of choices readable.
const maxListed = 16

// list names choices in a sentence: a, b or c.
func list(names []string, last string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	end := len(names) - 1
	return strings.Join(names[:end], ", ") + " " + last + " " + names[end]
}

// didYouMean is the cure for a name that is not known: the nearest one, else all.
func didYouMean(written string, names []string, kind string) string {
	if name, ok := nearest(written, names); ok {
		return "did you mean " + quote(name) + "?"
	}
	return kind + " " + list(names, "and")
}
