package spec

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind says what a Message is about.
type Kind string

// The supervisor sends the first five, a worker the others.
const (
	KindSpec   Kind = "spec"   // take this configuration; answered by ready or refused
	KindDrain  Kind = "drain"  // stop accepting, finish what is in progress; answered by drained
	KindStop   Kind = "stop"   // close everything and exit
	KindReopen Kind = "reopen" // open the log files anew
	KindPing   Kind = "ping"   // answered by pong if the loops turn

	KindReady   Kind = "ready"   // the configuration of this generation is in effect
	KindRefused Kind = "refused" // it is not, and Text says why; the one before stays
	KindDrained Kind = "drained" // no connection is left, or the limit is over; the worker exits
	KindPong    Kind = "pong"
)

// Message is one message in either direction. Fields beyond Kind belong to the
// kinds named beside them and are zero in all others.
type Message struct {
	Kind       Kind          `json:"kind"`
	Generation uint64        `json:"generation,omitempty"` // ready, refused: the configuration that it answers
	Text       string        `json:"text,omitempty"`       // refused: why, for the operator
	Limit      time.Duration `json:"limit,omitempty"`      // drain: how long requests in progress may take, ns
	Spec       *Spec         `json:"spec,omitempty"`       // spec
}

// encode returns the body of m and the descriptors that go with it. The caller's
// Spec is left alone: its sockets are replaced in a copy.
func encode(m *Message) (body []byte, descriptors []int, err error) {
	wire := *m
	if m.Spec != nil {
		copied := *m.Spec
		copied.Listeners, descriptors = numbered(m.Spec.Listeners)
		wire.Spec = &copied
	}
	if body, err = json.Marshal(&wire); err != nil {
		return nil, nil, fmt.Errorf("spec: message %s: %w", m.Kind, err)
	}
	if len(body) > maxBody {
		return nil, nil, fmt.Errorf("spec: message %s of %d bytes, more than the %d that fit; "+
			"the configuration is too large", m.Kind, len(body), maxBody)
	}
	if len(descriptors) > maxDescriptors {
		return nil, nil, fmt.Errorf("spec: %d listening sockets for one worker, more than the %d that fit; "+
			"use fewer listeners or loops", len(descriptors), maxDescriptors)
	}
	return body, descriptors, nil
}

// numbered puts indexes in the place of descriptors.
func numbered(listeners []Listener) (wire []Listener, descriptors []int) {
	for _, l := range listeners {
		indexes := make([]int, len(l.Sockets))
		for i, fd := range l.Sockets {
			indexes[i] = len(descriptors)
			descriptors = append(descriptors, fd)
		}
		l.Sockets = indexes
		wire = append(wire, l)
	}
	return wire, descriptors
}

// decode is encode backwards: indexes become the descriptors received. On an
// error the descriptors still belong to the caller.
func decode(body []byte, descriptors []int) (*Message, error) {
	m := new(Message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("spec: message of %d bytes: %w", len(body), err)
	}
	if (m.Kind == KindSpec) != (m.Spec != nil) {
		return nil, fmt.Errorf("spec: message %s: a spec belongs to kind %s, and to no other", m.Kind, KindSpec)
	}
	taken := 0
	if m.Spec != nil {
		for _, l := range m.Spec.Listeners {
			for i, index := range l.Sockets {
				// Each descriptor has one place, in order, so that none is lost or owned twice.
				if index != taken || taken == len(descriptors) {
					return nil, fmt.Errorf("spec: listener %s: socket %d is descriptor %d of %d, want descriptor %d",
						l.Name, i, index, len(descriptors), taken)
				}
				l.Sockets[i] = descriptors[taken]
				taken++
			}
		}
	}
	if taken != len(descriptors) {
		return nil, fmt.Errorf("spec: message %s: %d descriptors came, %d are named", m.Kind, len(descriptors), taken)
	}
	return m, nil
}
