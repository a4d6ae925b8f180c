package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"sluice/internal/guest/order"
)

// beInit is the life of process 1. It ends with the machine.
func beInit() error {
	err := prepare()
	if err == nil {
		err = attend()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err) // on the console, which the test shows
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// mounts are the file systems that a program expects.
var mounts = []struct{ kind, at string }{
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"devtmpfs", "/dev"},
	{"cgroup2", "/sys/fs/cgroup"},
	{"tmpfs", "/run"},
	{"tmpfs", "/tmp"},
}

// prepare makes a machine out of a bare kernel.
func prepare() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	if err := os.Mkdir(outputs, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpuset +memory"), 0); err != nil {
		return err
	}
	return loopbackUp()
}

// loopbackUp brings lo up; the kernel itself then gives it 127.0.0.1.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	return nil
}

// attend runs the part that follows orders, and reaps what has lost its parent,
// until that part ends.
func attend() error {
	port, err := os.OpenFile(order.Device, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := raw(int(port.Fd())); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "obey")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = port, port, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && err != unix.EINTR {
			return err
		}
		if pid == cmd.Process.Pid {
			return errors.New("the part that follows orders has ended")
		}
	}
}

// raw makes a terminal hand bytes on as they are (cfmakeraw(3)).
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag = 0
	t.Oflag &^= unix.OPOST
	t.Lflag = 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8 | unix.CLOCAL | unix.CREAD
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
