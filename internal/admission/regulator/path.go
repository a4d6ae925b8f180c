package regulator

import (
	"path/filepath"
	"strings"
)

// Path is where the state file is, by what the configuration says: a path, "off",
// or "auto". Auto is the directory that systemd gives (StateDirectory= in
// systemd.exec(5)), else the system's for root, else the user's (XDG Base Directory
// Specification). It is empty if there shall be no file, or no place is found.
func Path(state string, getenv func(string) string, uid int) string {
	const name = "limits.json"
	switch state {
	case "off":
		return ""
	case "auto":
	default:
		return state
	}
	given, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	home, user := getenv("HOME"), getenv("XDG_STATE_HOME")
	switch {
	case filepath.IsAbs(given):
		return filepath.Join(given, name)
	case uid == 0:
		return filepath.Join("/var/lib/sluice", name)
	case filepath.IsAbs(user):
		return filepath.Join(user, "sluice", name)
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local/state/sluice", name)
	}
	return ""
}
