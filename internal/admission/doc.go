// Package admission holds requests until their farm has a permit for them.
//
//	line.go   a farm's line in one worker: who waits, who is served next
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
// tenth time it rings another's bell.
//
// What must never be is a permit that is free while somebody waits for it. Four
// things can make it so, and each looks afterwards: a permit is given back (End),
// a request joins the line of a server for which nobody has waited (Join), the
// limit rises or a worker dies (the supervisor rings), a worker that was rung finds
// nobody to serve (Look rings on).
package admission
