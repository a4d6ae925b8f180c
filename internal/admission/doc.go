// Package admission holds requests until their farm has a permit for them.
//
//	line.go   a farm's line in one worker: who waits, who is served next
//	spill.go  when requests leave their NUMA node
//	desk.go   one loop's side of every line: its accounts, its bell rope
//	gate/     permits of one server, claimed by all loops of all workers
//	queue/    the order of those who wait
//	limit/    how many permits there are: the supervisor's side
//
// A request that finds nobody waiting claims a permit and goes: one
// compare-and-swap. Only one that finds none joins the line, and there the order
// is that of package queue. Whoever gives a permit back, while anybody waits for
// that server, serves the line at once: claims the permit again for the first of
// it and tells that request's loop. Nine times a worker serves its own line, the
// tenth time it rings another's bell and leaves that permit alone.
//
// What must never be is a permit that is free while somebody waits for it and
// nobody is on the way to see. These can make it so, and each looks afterwards:
//
//   - a permit is given back: End serves the line, or rings a worker that waits
//   - a request joins, or a server that had failed is back: whoever makes the first
//     one seen that waits for a server serves the line (settle)
//   - a worker that was rung has nobody to serve: it rings the next (passOn), also
//     if a reload took the server from it, or all who waited were late
//   - the limit rises, or a worker dies, perhaps with its bell unanswered: the
//     supervisor rings all who wait
//
// A server that has failed lately is avoided: it gets only those who may go to no
// other. When that time is over nobody is told; the supervisor rings once a second.
// So is a server of another node while requests may not be spilled to it; whether
// they may is looked at anew whenever the line is.
package admission
