package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

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
	if err := loadModules(); err != nil {
		return err
	}
	cards, err := filepath.Glob("/sys/class/net/*")
	for _, card := range cards {
		err = errors.Join(err, up(filepath.Base(card)))
	}
	return err
}

// loadModules loads the parts of the kernel that the machine was given.
func loadModules() error {
	modules, err := filepath.Glob("/modules/*.ko")
	for _, path := range modules {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil {
			return fmt.Errorf("loading %s: %w", path, err)
		}
	}
	return err
}

// up brings a network interface up; lo then has 127.0.0.1 from the kernel itself.
func up(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	card, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	card.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, card); err != nil {
		return fmt.Errorf("bringing %s up: %w", name, err)
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
