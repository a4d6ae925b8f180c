package attack

import "time"

// Attackers at once: few where each does as much as it can, many where each holds
// something.
const (
	few    = 8
	dozen  = 12
	some   = 64
	many   = 1000
	dripAt = 300 * time.Millisecond // between two bytes of who is slow
)

// Classes are all of them.
var Classes = []Class{
	{"rapid-reset", "HTTP/2: requests, each reset at once", few, frames(nothing, rapidReset)},
	{"made-you-reset", "HTTP/2: requests, each made faulty by a window of 0", few, frames(nothing, madeYouReset)},
	{"continuation", "HTTP/2: a head that has no end", few, frames(half, continuation)},
	{"settings", "HTTP/2: SETTINGS that change all windows", few, frames(nothing, settings)},
	{"ping", "HTTP/2: PING, answers unread", few, frames(nothing, ping)},
	{"window-update", "HTTP/2: WINDOW_UPDATE with nothing to send", few, frames(upload, windowUpdate)},
	{"empty-data", "HTTP/2: DATA that is empty", few, frames(upload, emptyData)},
	{"empty-headers", "HTTP/2: HEADERS and CONTINUATION that are empty", few, frames(nothing, emptyHeaders)},
	{"priority", "HTTP/2: PRIORITY", few, frames(nothing, priority)},
	{"priority-update", "HTTP/2: PRIORITY_UPDATE of 90 requests under way", few, frames(stalled, priorityUpdate)},
	{"hpack-bomb", "HTTP/2: 11 KB that name 44 MB of fields", few, frames(nothing, hpackBomb)},
	{"hpack-table", "HTTP/2: tables filled, emptied and filled again", few, frames(nothing, hpackTable)},
	{"zero-window", "HTTP/2: 1 MiB asked for 90 times at once, none taken", some, frames(shut, stall)},
	{"byte-window", "HTTP/2: the same, taken byte by byte", few, frames(stalled, drip)},
	{"slow-heads-1", "HTTP/1.1: heads by drops", many, slowHTTP1},
	{"slow-heads-2", "HTTP/2: heads by drops", many, slowHTTP2},
	{"tls-handshakes", "TLS: a ClientHello, and gone when it is answered", few, handshakes},
	{"tls-half-open", "TLS: a ClientHello, and silence", many, halfOpen},
	{"h3-reset", "HTTP/3: requests, each reset and its answer refused", few, streams(requestAndReset)},
	{"h3-fields", "HTTP/3: 32 KB that name 1 MB of fields", few, streams(fieldBomb)},
	{"h3-control", "HTTP/3: frames without meaning on the control stream", few, controlStream},
	{"quic-initials", "QUIC: first packets from all over, answers unread", dozen, initials},
	{"websockets", "WebSocket: tunnels that are idle", many, webSocket},
}
