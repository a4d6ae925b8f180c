package regulator

import (
	"hash/fnv"
	"io"
	"math"
	"reflect"
	"time"

	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

// keepEvery is the least time between two writes of what was learned. A crash of
// the machine costs no more than that.
const keepEvery = 10 * time.Second

// keep writes down what the controllers have learned: into the segment, where it
// outlives the regulator, and for the file, where it outlives the machine. Without
// all it does so only for servers whose limit has moved.
func (r *Regulator) keep(wall time.Time, all bool) {
	changed := false
	for _, s := range r.servers {
		if !s.awake || !all && !s.unkept {
			continue
		}
		s.unkept = false
		state := s.controller.State()
		if state == (limit.State{}) || !finite(state) {
			continue // a fixed limit learns nothing; what another one learned before stays
		}
		*r.shared.Learned(s.Slot) = wordsOf(state)
		r.file.put(entry{Farm: s.Farm, URL: s.URL, Saved: wall, Kind: s.Settings.Kind, State: state})
		changed = true
	}
	if changed {
		r.file.flush()
	}
}

// learned is what is known of a server that is about to be used: from its last
// controller if it had one until now, from the segment, or from the file.
func (r *Regulator) learned(s Server, old *server) limit.State {
	if old != nil {
		if state := old.controller.State(); state != (limit.State{}) {
			return state
		}
	}
	if state, ok := stateOf(r.shared.Learned(s.Slot)); ok {
		return state
	}
	return r.file.get(s.Farm, s.URL)
}

// A state in the segment is a word that stands for the meaning of the others, and
// then the fields of limit.State in their order. Segments live on over an upgrade,
// and the next binary may know other fields.
var meaning = meaningOf(reflect.TypeFor[limit.State]())

// meaningOf makes one word of the names and the order of the fields: 32 bits, which
// a float64 holds exactly.
func meaningOf(t reflect.Type) float64 {
	h := fnv.New32a()
	for i := range t.NumField() {
		io.WriteString(h, t.Field(i).Name+"\n")
	}
	return 1 + float64(h.Sum32()) // 0 is an empty place
}

// finite says whether a state can be written as JSON (RFC 8259 section 6).
func finite(state limit.State) bool {
	fields := reflect.ValueOf(state)
	for i := range fields.NumField() {
		if x := fields.Field(i).Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

func wordsOf(state limit.State) (words segment.Learned) {
	words[0] = meaning
	fields := reflect.ValueOf(state)
	for i := range fields.NumField() {
		words[1+i] = fields.Field(i).Float()
	}
	return words
}

// stateOf reads a state back. ok is false if nothing is there, or something with
// another meaning.
func stateOf(words *segment.Learned) (state limit.State, ok bool) {
	if words[0] != meaning {
		return state, false
	}
	fields := reflect.ValueOf(&state).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetFloat(words[1+i])
	}
	return state, true
}
