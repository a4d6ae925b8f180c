package supervisor

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// A program decides which socket of a group gets a new connection. It is of the
// kernel's classic kind (Documentation/networking/filter.rst), attached by
// SO_ATTACH_REUSEPORT_CBPF (socket(7)); what it returns is a place in the group, in
// the order in which the sockets began to listen. A place that the group does not
// have makes the kernel choose by its hash.
//
// It reads the number of the CPU that handles the packet (SKF_AD_CPU: an ancillary
// load, not LD [0], which gives bytes of the packet), and finds the CPU's part by
// halves. Where a part has several sockets, one is drawn by lot (SKF_AD_RANDOM):
// the packet's hash, SKF_AD_RXHASH, is 0 with network cards that compute none, and
// then one loop would get everything. A lot is drawn once per connection: the
// packets that follow find the connection's request, not the group. With SYN
// cookies the client's answer finds the group again; any socket of it will do, as
// the kernel keeps account of cookies by group (tcp_synq_overflow, net/tcp.h).

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// Loads of what is not in the packet have these addresses (linux/filter.h).
const (
	ancillary = -0x1000        // SKF_AD_OFF
	loadsCPU  = ancillary + 36 // SKF_AD_CPU
	loadsALot = ancillary + 56 // SKF_AD_RANDOM: 32 bits
)

// farthest is how many instructions a comparison can jump over: its field is a byte.
const farthest = 255

var errLongProgram = errors.New("the CPUs fall into more parts than a program of the kernel can tell apart")

// part is the CPUs from first to before the next part, and the places of the
// sockets that get what arrives there: ascending, at least one.
type part struct {
	first   int
	sockets []int
}

// instruction is one of the kernel's, or a jump to a draw whose distance is not
// known yet.
type instruction struct {
	unix.SockFilter
	draw int // 1 + its index; 0: no such jump
}

// compiler makes a program.
type compiler struct {
	lot    unix.SockFilter // loads the number by which one of several sockets is chosen
	draws  [][]unix.SockFilter
	drawOf map[string]int // by the sockets' places: parts share draws
}

// compile makes the program for parts, which are ascending and begin with CPU 0.
func compile(parts []part) ([]unix.SockFilter, error) {
	return assembleProgram(nil, load(loadsALot), parts)
}

// assembleProgram makes a program that begins with prefix and then finds the part of
// the CPU, and a socket of it by lot.
func assembleProgram(prefix []unix.SockFilter, lot unix.SockFilter, parts []part) ([]unix.SockFilter, error) {
	c := &compiler{lot: lot, drawOf: map[string]int{}}
	search := c.search(parts)
	at := make([]int, len(c.draws)) // where each draw begins
	end := len(prefix) + len(search) + 1
	for i, draw := range c.draws {
		at[i] = end
		end += len(draw)
	}
	if end > maxInstructions {
		return nil, errLongProgram
	}
	program := append(slices.Clone(prefix), load(loadsCPU))
	for _, i := range search {
		if i.draw > 0 {
			i.K = uint32(at[i.draw-1] - len(program) - 1)
		}
		program = append(program, i.SockFilter)
	}
	for _, draw := range c.draws {
		program = append(program, draw...)
	}
	return program, nil
}

// search finds the part of the CPU by halves.
func (c *compiler) search(parts []part) []instruction {
	if len(parts) == 1 {
		return []instruction{c.choice(parts[0].sockets)}
	}
	half := len(parts) / 2
	below, above := c.search(parts[:half]), c.search(parts[half:])
	compare := instruction{SockFilter: op(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, uint32(parts[half].first))}
	code := []instruction{compare}
	if len(below) <= farthest {
		code[0].Jt = uint8(len(below))
	} else {
		code[0].Jf = 1
		code = append(code, instruction{SockFilter: op(unix.BPF_JMP|unix.BPF_JA, uint32(len(below)))})
	}
	code = append(code, below...)
	return append(code, above...)
}

// choice returns the place of the only socket, or goes to the draw among several.
func (c *compiler) choice(sockets []int) instruction {
	if len(sockets) == 1 {
		return instruction{SockFilter: op(unix.BPF_RET|unix.BPF_K, uint32(sockets[0]))}
	}
	name := fmt.Sprint(sockets)
	index, known := c.drawOf[name]
	if !known {
		index = len(c.draws)
		c.drawOf[name] = index
		c.draws = append(c.draws, c.draw(sockets))
	}
	return instruction{SockFilter: op(unix.BPF_JMP|unix.BPF_JA, 0), draw: index + 1}
}

// draw returns the place of one of several sockets, each as often as the others.
// The lot is a number below their count; runs of neighbouring places are told
// apart by comparisons, and what is added makes a place of the number.
func (c *compiler) draw(sockets []int) []unix.SockFilter {
	code := []unix.SockFilter{
		c.lot,
		op(unix.BPF_ALU|unix.BPF_MOD|unix.BPF_K, uint32(len(sockets))),
	}
	for i := 0; i < len(sockets); {
		end := i + 1
		for end < len(sockets) && sockets[end] == sockets[end-1]+1 {
			end++
		}
		if end < len(sockets) {
			compare := op(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, uint32(end))
			compare.Jt = 2
			code = append(code, compare)
		}
		code = append(code,
			op(unix.BPF_ALU|unix.BPF_ADD|unix.BPF_K, uint32(sockets[i]-i)),
			op(unix.BPF_RET|unix.BPF_A, 0))
		i = end
	}
	return code
}

func op(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// load reads 32 bits. The address is below 0, as 32 bits show it.
func load(address int32) unix.SockFilter {
	return op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, uint32(address))
}
