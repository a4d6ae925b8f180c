package affinity

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/placement"
)

// policy is a thread's NUMA memory policy (set_mempolicy(2)).
type policy struct {
	mode  int         // MPOL_*, with its MPOL_F_* flags
	nodes unix.CPUSet // node mask; the type is a plain mask of 1024 bits, as CONFIG_NODES_SHIFT allows at most
}

// modes are the kernel's names of our policies. MPOL_PREFERRED takes memory
// elsewhere when the node is full; MPOL_BIND fails instead.
var modes = map[string]int{
	placement.MemoryPrefer: unix.MPOL_PREFERRED,
	placement.MemoryBind:   unix.MPOL_BIND,
}

func hasPolicy(w placement.Worker) bool {
	_, found := modes[w.Memory]
	return found
}

// setPolicy changes the calling thread's memory policy. Where set_mempolicy
// needs a right that we lack the error is EPERM (containers), where the kernel
// knows no NUMA it is ENOSYS.
func setPolicy(w placement.Worker) (restore func() error, err error) {
	before, err := currentPolicy()
	if err != nil {
		return nil, err
	}
	wanted := policy{mode: modes[w.Memory]}
	wanted.nodes.Set(w.Node)
	if err := wanted.apply(); err != nil {
		return nil, err
	}
	return before.apply, nil
}

// apply gives the policy to the calling thread. MPOL_DEFAULT must come with an
// empty mask, which is how currentPolicy read it.
func (p *policy) apply() error {
	// Not SetMemPolicyDynamic: it counts its mask in bytes where the kernel
	// wants bits (golang.org/x/sys v0.49.0).
	return unix.SetMemPolicy(p.mode, &p.nodes)
}

// currentPolicy reads the calling thread's memory policy (get_mempolicy(2) with
// no flags), for which golang.org/x/sys has no call.
func currentPolicy() (*policy, error) {
	var p policy
	var mode int32
	const maskBits = uintptr(len(p.nodes)) * unsafe.Sizeof(p.nodes[0]) * 8
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY,
		uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&p.nodes)), maskBits, 0, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	p.mode = int(mode)
	return &p, nil
}
