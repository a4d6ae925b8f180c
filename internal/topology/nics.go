package topology

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const netDir = "sys/class/net"

// nics reads the network cards (Documentation/ABI/testing/sysfs-class-net).
func (r *reader) nics() []NIC {
	var nics []NIC
	var table []irqLine
	for _, name := range r.names(netDir) {
		dirs := r.devices(name)
		if len(dirs) == 0 {
			continue
		}
		if table == nil {
			table = r.interrupts()
		}
		nics = append(nics, r.nic(name, dirs, table))
	}
	slices.SortFunc(nics, func(a, b NIC) int { return cmp.Compare(a.Name, b.Name) })
	return nics
}

func (r *reader) nic(name string, dirs []string, table []irqLine) NIC {
	state, _ := r.peek(path.Join(netDir, name, "operstate"))
	return NIC{
		Name:   name,
		Driver: r.driver(dirs[0]),
		Node:   r.deviceNode(dirs),
		Up:     state == "up" || state == "unknown", // some drivers never say
		Rx:     r.queues(name, "rx-", "/rps_cpus"),
		Tx:     r.queues(name, "tx-", "/xps_cpus"),
		IRQs:   r.irqs(name, dirs, table),
	}
}

// devices lists the directories of the device of a NIC and of all that it is
// plugged into, nearest first; none if it has no device. The class directory
// links to .../0000:00:03.0/virtio2/net/eth0. A tree in which that is no link
// shows the device only.
func (r *reader) devices(name string) []string {
	at := path.Join(netDir, name)
	if _, err := fs.Stat(r.tree, at+"/device"); err != nil {
		return nil
	}
	dirs := []string{at + "/device"}
	link, err := fs.ReadLink(r.tree, at)
	if err != nil {
		return dirs
	}
	place := path.Join(netDir, link)
	for dir := path.Dir(path.Dir(place)); strings.HasPrefix(dir, "sys/devices/"); dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func (r *reader) driver(device string) string {
	if link, err := fs.ReadLink(r.tree, device+"/driver"); err == nil {
		return path.Base(link)
	}
	uevent, _ := r.peek(device + "/uevent")
	for line := range strings.SplitSeq(uevent, "\n") {
		if name, found := strings.CutPrefix(line, "DRIVER="); found {
			return name
		}
	}
	return ""
}

// deviceNode is the node of the nearest directory that knows one. A virtio
// device does not, the PCI function beneath it may.
func (r *reader) deviceNode(dirs []string) int {
	for _, dir := range dirs {
		if node := r.peekNumber(dir + "/numa_node"); node >= 0 {
			return node
		}
	}
	return -1
}

func (r *reader) queues(nic, kind, mask string) []Queue {
	dir := path.Join(netDir, nic, "queues")
	queues := []Queue{}
	for _, i := range r.numbered(dir, kind) {
		at := fmt.Sprintf("%s/%s%d", dir, kind, i)
		cpus, _ := r.peekMask(at + mask)
		queues = append(queues, Queue{Index: i, CPUs: cpus, Flows: int(r.peekCount(at + "/rps_flow_cnt"))})
	}
	return queues
}

// irqLine is a line of /proc/interrupts.
type irqLine struct {
	number int
	count  uint64 // on all CPUs
	name   string // of those who handle it; "eth0, usb1" if they share it
}

// interrupts reads the numbered lines of /proc/interrupts:
//
//	      CPU0       CPU1
//	38:     14         3 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
func (r *reader) interrupts() []irqLine {
	text, _ := r.peek("proc/interrupts")
	lines := []irqLine{}
	columns := 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if columns == 0 {
			columns = len(words) // the head names the online CPUs
			continue
		}
		if irq, ok := interruptLine(words, columns); ok {
			lines = append(lines, irq)
		}
	}
	return lines
}

func interruptLine(words []string, columns int) (irqLine, bool) {
	if len(words) < columns+2 {
		return irqLine{}, false
	}
	number, err := strconv.ParseUint(strings.TrimSuffix(words[0], ":"), 10, 31)
	if err != nil {
		return irqLine{}, false // NMI, LOC and their like are no device's
	}
	irq := irqLine{number: int(number)}
	for _, word := range words[1 : columns+1] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return irqLine{}, false
		}
		irq.count += n
	}
	last := len(words) - 1
	for last > columns+1 && strings.HasSuffix(words[last-1], ",") {
		last--
	}
	irq.name = strings.Join(words[last:], " ")
	return irq, true
}

// irqs lists a NIC's interrupts: those of its PCI function that somebody
// handles, and those that bear its name or its device's. Those of a virtio
// device belong to the function beneath it, and bear the device's. A bridge
// further up has interrupts of its own. A synthetic NIC of Hyper-V has channels
// instead, each bound to a CPU.
func (r *reader) irqs(nic string, dirs []string, table []irqLine) []IRQ {
	function := dirs[min(1, len(dirs)-1)]
	own := append(r.numbered(dirs[0]+"/msi_irqs", ""), r.numbered(function+"/msi_irqs", "")...)
	if line := r.peekNumber(function + "/irq"); line > 0 && len(own) == 0 {
		own = append(own, line) // with MSI-X it is a pin that others may use
	}
	names := []string{nic}
	for _, dir := range dirs {
		if base := path.Base(dir); virtioName.MatchString(base) {
			names = append(names, base)
		}
	}
	if pciName.MatchString(path.Base(function)) {
		names = append(names, path.Base(function))
	}
	irqs := r.channels(dirs[0])
	for _, line := range table {
		if slices.Contains(own, line.number) || slices.ContainsFunc(names, func(name string) bool { return mentions(line.name, name) }) {
			irqs = append(irqs, r.irq(line, nic))
		}
	}
	if len(irqs) == 1 && irqs[0].Queue < 0 {
		irqs[0].Queue = 0 // an old card has one for everything
	}
	slices.SortStableFunc(irqs, func(a, b IRQ) int { return cmp.Compare(a.Number, b.Number) })
	return irqs
}

func (r *reader) irq(line irqLine, nic string) IRQ {
	dir := fmt.Sprintf("proc/irq/%d", line.number)
	irq := IRQ{
		Number: line.number, Name: line.name, Queue: queueOf(line.name, nic), Count: line.count,
		CPUs: r.sharers(dir + "/smp_affinity"),
	}
	irq.Effective = r.sharers(dir + "/effective_affinity")
	return irq
}

// channels reads the channels of a device on Hyper-V's bus
// (Documentation/ABI/stable/sysfs-bus-vmbus). Each serves a queue, in their order.
func (r *reader) channels(device string) []IRQ {
	var irqs []IRQ
	for i, channel := range r.numbered(device+"/channels", "") {
		at := fmt.Sprintf("%s/channels/%d", device, channel)
		irq := IRQ{Name: fmt.Sprintf("channel %d", channel), Queue: i, Count: uint64(r.peekCount(at + "/interrupts"))}
		if cpu := r.peekNumber(at + "/cpu"); cpu >= 0 {
			irq.CPUs, irq.Effective = []int{cpu}, []int{cpu}
		}
		irqs = append(irqs, irq)
	}
	return irqs
}

var (
	virtioName = regexp.MustCompile(`^virtio\d+$`)
	pciName    = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// mentions reports whether an interrupt's name has a device's name in it as a
// word: "eth1" is not in "eth10-rx-0".
func mentions(text, name string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		if (start == 0 || !isWord(text[start-1])) && (end == len(text) || !isWord(text[end])) {
			return true
		}
		from = end
	}
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// control are words in names of interrupts that carry no packets.
var control = regexp.MustCompile(`config|control|async|mgm|misc|fdir|hwc|pages|ptp|fault`)

// trailing is the number at a name's end: of "virtio2-input.0", "eth0-TxRx-0",
// "mlx5_comp0".
var trailing = regexp.MustCompile(`\d+$`)

// queueOf guesses from an interrupt's name which queue it serves. Drivers agree
// on a number at the end, and some say the device after an "@".
func queueOf(name, nic string) int {
	name, _, _ = strings.Cut(name, "@")
	if i := strings.Index(name, nic); i >= 0 {
		name = name[i+len(nic):] // its digit is no queue's
	}
	digits := trailing.FindString(name)
	if digits == "" || control.MatchString(name) {
		return -1
	}
	queue, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return -1
	}
	return int(queue)
}
