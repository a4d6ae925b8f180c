package keyring

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

const (
	ticketKeyBytes = 32
	keptKeys       = 3  // of this run: the one that seals, and the two before it
	maxSecrets     = 16 // in a file: each is tried with each ticket
)

// Tickets makes the keys of session tickets. Without a file it keeps some of its own,
// which nobody else has, and which are gone when their time is over. One goroutine owns
// it. The zero value has none yet.
type Tickets struct {
	own  [][]byte // newest first
	born time.Time
}

// Keys gives the keys in force at a moment, the one that seals first, and the moment at
// which to ask again. rotate is how long a key seals.
func (t *Tickets) Keys(now time.Time, ring *Ring, rotate time.Duration) (keys [][]byte, until time.Time) {
	if len(ring.secrets) > 0 {
		return derived(ring.secrets, now, rotate)
	}
	if len(t.own) == 0 || now.Sub(t.born) >= rotate {
		key := make([]byte, ticketKeyBytes)
		rand.Read(key) // never fails; ends the program if the kernel has no randomness
		t.own = append([][]byte{key}, t.own[:min(len(t.own), keptKeys-1)]...)
		t.born = now
	}
	return t.own, t.born.Add(rotate)
}

// derived makes keys of secrets and the time, so that machines which share the secrets
// change their keys together, and open what one whose clock goes before has sealed.
func derived(secrets [][]byte, now time.Time, rotate time.Duration) (keys [][]byte, until time.Time) {
	span := int64(rotate / time.Second)
	epoch := now.Unix() / span
	make := func(secret []byte, epoch int64) []byte {
		// It fails only for a key longer than 255 hashes.
		key, _ := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("sluice session ticket key %d/%d", span, epoch), ticketKeyBytes)
		return key
	}
	keys = append(keys, make(secrets[0], epoch))
	for i, secret := range secrets {
		for _, e := range []int64{epoch, epoch - 1, epoch - 2, epoch + 1} {
			if i > 0 || e != epoch {
				keys = append(keys, make(secret, e))
			}
		}
	}
	return keys, time.Unix((epoch+1)*span, 0)
}

// secrets reads a file of secrets: a line of base64 or hexadecimal digits each, 32 bytes
// at least; or, as nginx keeps them, 48 or 80 bytes and nothing else.
func (r *reader) secrets(file, at string) [][]byte {
	r.note(file)
	data, p := readFile(file)
	if p != nil {
		r.fault(at, file, p)
		return nil
	}
	r.secret(at, file)
	if len(data) == 48 || len(data) == 80 {
		if !isText(data) {
			return [][]byte{data}
		}
	}
	var secrets [][]byte
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret := decodeSecret(string(line))
		if len(secret) < ticketKeyBytes {
			r.fault(at, file, &problem{"line " + strconv.Itoa(number) + " is no secret of " + strconv.Itoa(ticketKeyBytes) + " bytes or more in base64",
				"make one: openssl rand -base64 48"})
			return nil
		}
		secrets = append(secrets, secret)
	}
	switch n := len(secrets); {
	case n == 0:
		r.fault(at, file, &problem{"holds no secret", "make one: openssl rand -base64 48"})
	case n > maxSecrets:
		r.fault(at, file, &problem{"holds more than " + strconv.Itoa(maxSecrets) + " secrets", "remove the oldest"})
	}
	return secrets
}

func isText(data []byte) bool {
	return !bytes.ContainsFunc(data, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' && r != '\r' && r != '\t' })
}

// decodeSecret reads hexadecimal digits, or base64; what is neither gives nothing.
func decodeSecret(text string) []byte {
	if secret, err := hex.DecodeString(text); err == nil {
		return secret
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return secret
}
