package queue

// list is a doubly linked list whose nodes are part of what it holds, so that
// joining and leaving allocate nothing.
type list[T any] struct {
	first, last *node[T]
}

// node is the place of one in a list. A node is in one list at most.
type node[T any] struct {
	before, after *node[T]
	of            *T // whom it belongs to
}

// push puts n, the node of t, at the end.
func (l *list[T]) push(n *node[T], t *T) {
	n.before, n.after, n.of = l.last, nil, t
	if l.last == nil {
		l.first = n
	} else {
		l.last.after = n
	}
	l.last = n
}

// remove takes n, which is in this list, out of it.
func (l *list[T]) remove(n *node[T]) {
	if n.before == nil {
		l.first = n.after
	} else {
		n.before.after = n.after
	}
	if n.after == nil {
		l.last = n.before
	} else {
		n.after.before = n.before
	}
	n.before, n.after = nil, nil
}
