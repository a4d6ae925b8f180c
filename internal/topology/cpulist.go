package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds a CPU or node number in a list. Linux is built for 8192 CPUs at
// most (NR_CPUS on x86); the bound keeps "0-4000000000" from filling memory.
const maxID = 1 << 16

// ParseCPUs reads the kernel's list format: "0-3,8,10-11" (sysfs cpulist and
// node lists, cpuset.cpus). White space around the list is ignored, and an empty
// list is no CPU. The result is ascending, each number once.
//
// It refuses what is not a list, a range that runs backwards, and numbers of
// 65,536 and above.
func ParseCPUs(list string) ([]int, error) {
	list = strings.TrimSpace(list)
	if list == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, err := parseRange(part)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
		// Many overlapping ranges must not add up either.
		if len(cpus) > maxID {
			return nil, fmt.Errorf("CPU list %q: more than %d numbers", list, maxID)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

func parseRange(part string) (first, last int, err error) {
	from, to, isRange := strings.Cut(part, "-")
	if first, err = parseID(from); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parseID(to); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, fmt.Errorf("range %q runs backwards", part)
	}
	return first, last, nil
}

func parseID(text string) (int, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if id >= maxID {
		return 0, fmt.Errorf("%d is not below %d", id, maxID)
	}
	return int(id), nil
}

// FormatCPUs prints CPU numbers as the kernel does: "0-3,8,10-11". They must be
// ascending. No CPU is the empty string.
func FormatCPUs(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(cpus[last]))
		}
		i = last + 1
	}
	return b.String()
}

// ParseMask reads the kernel's mask format: words of 32 bits in hexadecimal, the
// highest first, with commas between ("00000000,0000ff00": rps_cpus, cpumap,
// smp_affinity). The result is ascending; an empty text is no CPU.
//
// It refuses what is not a mask, and numbers of 65,536 and above.
func ParseMask(mask string) ([]int, error) {
	mask = strings.TrimSpace(mask)
	if mask == "" {
		return nil, nil
	}
	words := strings.Split(mask, ",")
	if len(words) > maxID/maskWord {
		return nil, fmt.Errorf("CPU mask of %d words: at most %d", len(words), maxID/maskWord)
	}
	var cpus []int
	slices.Reverse(words)
	for i, word := range words {
		bits, err := strconv.ParseUint(word, 16, maskWord)
		if err != nil {
			return nil, fmt.Errorf("CPU mask %q: %q is not a word of %d bits", mask, word, maskWord)
		}
		for bit := range maskWord {
			if bits>>bit&1 != 0 {
				cpus = append(cpus, i*maskWord+bit)
			}
		}
	}
	return cpus, nil
}

const maskWord = 32 // bits

// FormatMask prints CPU numbers as the kernel reads and prints a mask: "3",
// "1,00000000". No CPU is "0".
func FormatMask(cpus []int) string {
	words := []uint32{0}
	for _, cpu := range cpus {
		for cpu/maskWord >= len(words) {
			words = append(words, 0)
		}
		words[cpu/maskWord] |= 1 << (cpu % maskWord)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%x", words[len(words)-1])
	for i := len(words) - 2; i >= 0; i-- {
		fmt.Fprintf(&b, ",%08x", words[i])
	}
	return b.String()
}
