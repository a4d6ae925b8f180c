package proxy

import (
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// idBytes is the length of a request id: 128 random bits in hexadecimal.
const idBytes = 32

// identities makes request ids. They must not repeat; they are no secrets.
type identities struct{ random *rand.ChaCha8 }

func newIdentities() identities {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32()) // the runtime's generator is seeded by the kernel
	}
	return identities{rand.NewChaCha8(seed)}
}

func (g identities) next(id *[idBytes]byte) {
	var raw [idBytes / 2]byte
	g.random.Read(raw[:])
	hex.Encode(id[:], raw[:])
}

// date is the Date of the present second (RFC 9110 6.6.1).
type date struct {
	second int64 // executor time
	text   []byte
}

// dateFormat is IMF-fixdate (RFC 9110 5.6.7).
const dateFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

// at is the value for executor time now; good until the next call.
func (d *date) at(now int64) []byte {
	if second := now / 1e9; second != d.second || d.text == nil {
		d.second = second
		d.text = time.Now().UTC().AppendFormat(d.text[:0], dateFormat)
	}
	return d.text
}
