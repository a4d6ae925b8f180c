package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func (k *checker) workers() {
	w := k.Workers
	if !isWorkers(w.Per) {
		k.oneOf("workers.per", w.Per, []string{"node", "cluster", "machine", "a number of workers from 1 to " + strconv.Itoa(maxWorkers)})
	}
	k.oneOf("workers.affinity", w.Affinity, []string{"hard", "soft", "none"})
	k.oneOf("workers.memory", w.Memory, []string{"prefer", "bind", "default"})
	k.oneOf("workers.reserve", w.Reserve, []string{"none", "cpu", "sibling"})
	checkBounds(k, strconv.Itoa, []bound[int]{{"workers.loops", w.Loops, 0, maxLoops}})
	k.numbers("workers.cpus", w.CPUs, "CPU", maxCPU)
	k.numbers("workers.nodes", w.Nodes, "node", maxNode)
}

// isWorkers tells a number of workers, written as numbers are.
func isWorkers(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && strconv.Itoa(n) == text && n >= 1 && n <= maxWorkers
}

// numbers checks a list of CPUs or nodes in the kernel's format (cpuset(7)):
// numbers and ranges with commas between, "0-7,16". Empty is all.
func (k *checker) numbers(path, list, noun string, most int) {
	if list == "" {
		return
	}
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, p := numberRange(part, noun, most)
		if p != nil {
			p.cure = otherList(list, most)
			k.add(path, list, *p)
			return
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
		if len(all) > most+1 {
			break
		}
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) < len(all) {
		k.add(path, list, problem{"a " + noun + " stands there twice", "write each once"})
	}
}

// numberRange reads one part of a list: a number, or the first and the last of a
// range.
func numberRange(part, noun string, most int) (first, last int, p *problem) {
	from, to, isRange := strings.Cut(part, "-")
	if !isRange {
		to = from
	}
	switch {
	case !isDigits(from) || !isDigits(to):
		return 0, 0, &problem{rule: cmp.Or(quote(part), "what stands beside a comma") + " is neither a number nor a range"}
	case len(from) > 5 || len(to) > 5:
		last = most + 1
	default:
		first, _ = strconv.Atoi(from)
		last, _ = strconv.Atoi(to)
	}
	switch {
	case last > most || first > most:
		return 0, 0, &problem{rule: noun + " numbers go from 0 to " + strconv.Itoa(most)}
	case first > last:
		return 0, 0, &problem{rule: "the range " + quote(part) + " runs backwards"}
	}
	return first, last, nil
}

// looksLikeList tells what may be a part of a list of numbers.
func looksLikeList(text string) bool { return isDigits(strings.ReplaceAll(text, "-", "")) }

// listSlips are ways in which people write lists, with ours.
var listSlips = strings.NewReplacer("[", "", "]", "", "..", "-", ":", "-", ";", ",", " to ", "-", " - ", "-", ", ", ",", " ", ",")

// otherList guesses what a list that does not parse was to be.
func otherList(list string, most int) string {
	plain := strings.Trim(listSlips.Replace(strings.TrimSpace(list)), ",")
	parts := strings.Split(plain, ",")
	for i, part := range parts {
		if from, to, isRange := strings.Cut(part, "-"); isRange && len(from) <= 5 && len(to) <= 5 && isDigits(from) && isDigits(to) {
			first, _ := strconv.Atoi(from)
			last, _ := strconv.Atoi(to)
			parts[i] = strconv.Itoa(min(first, last)) + "-" + strconv.Itoa(max(first, last))
			part = parts[i]
		}
		if _, _, p := numberRange(part, "", most); p != nil {
			return `write a list as "0-7,16", or leave the key out for all`
		}
	}
	return "write " + quote(strings.Join(parts, ","))
}
