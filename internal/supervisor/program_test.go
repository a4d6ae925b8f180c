package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// run interprets a program as the kernel would, for a packet that arrives on a CPU
// and a lot. It knows the instructions that compile uses, and fails on others.
func run(program []unix.SockFilter, cpu, lot uint32) (place uint32, err error) {
	var a uint32
	for at := 0; at < len(program); at++ {
		i := program[at]
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch int32(i.K) {
			case -0x1000 + 36:
				a = cpu
			case -0x1000 + 56:
				a = lot
			default:
				return 0, fmt.Errorf("instruction %d loads from %d", at, int32(i.K))
			}
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			if a >= i.K {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		case unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K:
			a %= i.K
		case unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K:
			a += i.K
		case unix.BPF_RET | unix.BPF_A:
			return a, nil
		case unix.BPF_RET | unix.BPF_K:
			return i.K, nil
		default:
			return 0, fmt.Errorf("instruction %d has the code %#x", at, i.Code)
		}
	}
	return 0, errors.New("the program has no end")
}

// drawn is the places that a CPU's connections get, with lots enough for each.
func drawn(t *testing.T, program []unix.SockFilter, cpu, lots int) []int {
	t.Helper()
	var places []int
	for lot := range lots {
		place, err := run(program, uint32(cpu), uint32(lot))
		if err != nil {
			t.Fatalf("CPU %d, lot %d: %v", cpu, lot, err)
		}
		places = append(places, int(place))
	}
	slices.Sort(places)
	return places
}

// Each CPU of a part gets each socket of its part once in as many lots as there are
// sockets, whatever the parts: long jumps, sockets apart, a single one.
func TestProgram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		parts := randomParts(random)
		program, err := compile(parts)
		if err != nil {
			t.Fatal(err)
		}
		if len(program) > maxInstructions {
			t.Fatalf("%d instructions", len(program))
		}
		for i, p := range parts {
			last := p.first + 1 // beyond the last part there is no end
			if i+1 < len(parts) {
				last = parts[i+1].first - 1
			}
			for _, cpu := range []int{p.first, (p.first + last) / 2, last} {
				if got := drawn(t, program, cpu, len(p.sockets)); !slices.Equal(got, p.sockets) {
					t.Fatalf("CPU %d gets %v, want %v; parts %v", cpu, got, p.sockets, parts)
				}
			}
		}
	}
}

func randomParts(random *rand.Rand) []part {
	var choices [8][]int // few, so that draws are shared
	for i := range choices {
		for place := range 40 {
			if random.IntN(1+i) == 0 {
				choices[i] = append(choices[i], place)
			}
		}
		if len(choices[i]) == 0 {
			choices[i] = []int{i}
		}
	}
	var parts []part
	first := 0
	for range 1 + random.IntN(1<<random.IntN(10)) {
		sockets := choices[random.IntN(len(choices))]
		if random.IntN(3) == 0 {
			sockets = []int{random.IntN(40)}
		}
		parts = append(parts, part{first, sockets})
		first += 1 + random.IntN(5)
	}
	return parts
}

// The largest machines fit within the kernel's bound on the length, and what does not is
// refused.
func TestLongestPrograms(t *testing.T) {
	for _, test := range []struct {
		what  string
		cpus  int
		nodes int // CPUs go round them; 0: each CPU has a socket of its own
		fits  bool
	}{
		{"a socket for each of 2000 CPUs", 2000, 0, true},
		{"for each of 2049", 2049, 0, false},
		{"1024 CPUs of 8 nodes in turn", 1024, 8, true},
	} {
		var parts []part
		for cpu := range test.cpus {
			sockets := []int{cpu}
			if test.nodes > 0 {
				node := cpu % test.nodes
				sockets = []int{2 * node, 2*node + 1}
			}
			parts = append(parts, part{cpu, sockets})
		}
		program, err := compile(parts)
		if len(program) > maxInstructions || (err == nil) != test.fits {
			t.Errorf("%s: %d instructions, error %v", test.what, len(program), err)
		}
	}
}
