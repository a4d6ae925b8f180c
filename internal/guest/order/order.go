// Package order is what a test and the agent in its guest say to each other: a
// line of JSON each way, one order at a time. It has no code, so that the agent
// carries nothing of a test.
package order

// Kinds of orders.
const (
	Read   = "read"   // Path, Keep → Text
	Match  = "match"  // Path, a pattern as of path/filepath, Keep → Files: each file that it matches, with its text
	List   = "list"   // Path → Names
	Write  = "write"  // Path, Text; the file is made if it is not there
	Mkdir  = "mkdir"  // Path
	Start  = "start"  // Path, Args, Env, Cgroup → PID, Text: outputs go to Text.stdout and Text.stderr
	Ended  = "ended"  // PID of a started process → Ended, and Code if it has: -1 if a signal killed it
	Signal = "signal" // PID, Number
	Ask    = "ask"    // Network, Address, Text: bytes to send → Text: all bytes until the other end closes
)

// Order is what the agent shall do. Which fields matter stands at the kinds.
type Order struct {
	Do      string   `json:"do"`
	Path    string   `json:"path,omitempty"`
	Text    string   `json:"text,omitempty"`
	Keep    string   `json:"keep,omitempty"` // of a text that is read, what matches this (package regexp), a line for each; empty: all
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Cgroup  string   `json:"cgroup,omitempty"` // directory of the control group that a process is born in; empty: the agent's
	PID     int      `json:"pid,omitempty"`
	Number  int      `json:"number,omitempty"`
	Network string   `json:"network,omitempty"`
	Address string   `json:"address,omitempty"`
}

// Answer is what became of an order.
type Answer struct {
	Error string            `json:"error,omitempty"` // empty: it was done
	Text  string            `json:"text,omitempty"`
	Files map[string]string `json:"files,omitempty"`
	Names []string          `json:"names,omitempty"`
	PID   int               `json:"pid,omitempty"`
	Ended bool              `json:"ended,omitempty"`
	Code  int               `json:"code,omitempty"`
}

// Ready is the agent's first line, before any order.
const Ready = "ready"

// Device is the serial port that the lines go over, in the guest.
const Device = "/dev/ttyS1"
