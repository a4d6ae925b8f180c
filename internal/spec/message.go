package spec

import (
	"encoding/json"
	"fmt"
	"time"

	"sluice/internal/config"
)

// Kind says what a Message is about.
type Kind string

// The supervisor sends the first six, a worker the others.
const (
	KindKeys   Kind = "keys"   // the files of certificates have changed, the configuration has not; answered by renewed
	KindSpec   Kind = "spec"   // take this configuration; answered by ready or refused
	KindDrain  Kind = "drain"  // stop accepting, finish what is in progress; answered by drained
	KindStop   Kind = "stop"   // close everything and exit
	KindReopen Kind = "reopen" // open the log files anew
	KindPing   Kind = "ping"   // answered by pong if the loops turn

	KindRenewed Kind = "renewed" // the keys of this serial number are in use, or Text says why not
	KindReady   Kind = "ready"   // the configuration of this generation is in effect
	KindRefused Kind = "refused" // it is not, and Text says why; the one before stays
	KindDrained Kind = "drained" // no connection is left, or the limit is over; the worker exits
	KindPong    Kind = "pong"
)

// Message is one message in either direction. Fields beyond Kind belong to the
// kinds named beside them and are zero in all others.
type Message struct {
	Kind       Kind          `json:"kind"`
	Generation uint64        `json:"generation,omitempty"` // ready, refused: the configuration that it answers; keys: the one that they belong to
	Serial     uint64        `json:"serial,omitempty"`     // renewed: the keys that it answers
	Text       string        `json:"text,omitempty"`       // refused, renewed: why not, for the operator
	Limit      time.Duration `json:"limit,omitempty"`      // drain: how long requests in progress may take, ns
	Spec       *Spec         `json:"spec,omitempty"`       // spec
	Keys       *Keys         `json:"keys,omitempty"`       // keys; of the configuration of this generation
}

// encode returns the body of m and the descriptors that go with it. The caller's
// Spec is left alone: its descriptors are replaced in a copy.
func encode(m *Message) (body []byte, descriptors []int, err error) {
	wire := *m
	if m.Spec != nil {
		copied := *m.Spec
		var listeners []Listener
		for _, l := range copied.Listeners {
			l.Sockets = numbered(l.Sockets, &descriptors)
			l.Packets = numbered(l.Packets, &descriptors)
			listeners = append(listeners, l)
		}
		copied.Listeners, copied.Bells = listeners, numbered(copied.Bells, &descriptors)
		wire.Spec = &copied
	}
	if body, err = json.Marshal(&wire); err != nil {
		return nil, nil, fmt.Errorf("spec: message %s: %w", m.Kind, err)
	}
	if len(body) > maxBody {
		return nil, nil, fmt.Errorf("spec: message %s of %d bytes, more than the %d that fit; "+
			"the configuration with its certificates is too large", m.Kind, len(body), maxBody)
	}
	if len(descriptors) > maxDescriptors {
		return nil, nil, fmt.Errorf("spec: %d sockets and bells for one worker, more than the %d that fit; "+
			"use fewer listeners or loops", len(descriptors), maxDescriptors)
	}
	return body, descriptors, nil
}

// numbered notes descriptors, and returns the indexes that stand for them.
func numbered(files []int, descriptors *[]int) []int {
	if files == nil {
		return nil
	}
	indexes := make([]int, len(files))
	for i, fd := range files {
		indexes[i] = len(*descriptors)
		*descriptors = append(*descriptors, fd)
	}
	return indexes
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
	if (m.Kind == KindKeys) != (m.Keys != nil) {
		return nil, fmt.Errorf("spec: message %s: keys belong to kind %s, and to no other", m.Kind, KindKeys)
	}
	rest := descriptors
	if m.Spec != nil {
		var err error
		for _, l := range m.Spec.Listeners {
			if rest, err = claim(l.Sockets, descriptors, rest); err != nil {
				return nil, fmt.Errorf("spec: listener %s: socket %w", l.Name, err)
			}
			if rest, err = claim(l.Packets, descriptors, rest); err != nil {
				return nil, fmt.Errorf("spec: listener %s: socket of QUIC %w", l.Name, err)
			}
		}
		if rest, err = claim(m.Spec.Bells, descriptors, rest); err != nil {
			return nil, fmt.Errorf("spec: bell %w", err)
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("spec: message %s: %d descriptors came, %d are named", m.Kind, len(descriptors), len(descriptors)-len(rest))
	}
	return m, nil
}

// claim puts descriptors in the place of indexes, and returns those that are left.
// Each has one place, in order, so that none is lost or owned twice.
func claim(indexes, descriptors, rest []int) (left []int, err error) {
	for i, index := range indexes {
		next := len(descriptors) - len(rest)
		if index != next || len(rest) == 0 {
			return nil, fmt.Errorf("%d is descriptor %d of %d, want descriptor %d", i, index, len(descriptors), next)
		}
		indexes[i], rest = rest[0], rest[1:]
	}
	return rest, nil
}

// Fits says whether a configuration with its keys can cross to a worker: an error tells
// that it is too large. Who asks before it is sent can still refuse it.
func Fits(cfg *config.Config, keys *Keys) error {
	const room = 256 << 10 // bytes for all else in a spec: CPUs, sockets, servers
	body, err := json.Marshal(&Spec{Config: cfg, Keys: keys})
	if err == nil && len(body) > maxBody-room {
		err = fmt.Errorf("the configuration with its certificates and keys takes %d bytes, more than the %d that can be given to a worker; use fewer certificates",
			len(body), maxBody-room)
	}
	return err
}
