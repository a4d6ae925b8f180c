package keyring

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"sluice/internal/spec"
)

// maxFileBytes bounds one file. The bundle of all public roots takes 220 KiB.
const maxFileBytes = 1 << 20

// problem is what is wrong with a file, and what would be right.
type problem struct{ rule, cure string }

// Pair reads a certificate and its key, from two files or from one. On a fault, which
// is noted, leaf is nil.
func (r *reader) Pair(certFile, keyFile, at string) (pair spec.Certificate, leaf *x509.Certificate) {
	r.note(certFile)
	r.note(keyFile)
	chain, p := readCertificates(certFile)
	if p != nil {
		r.fault(at+".cert", certFile, p)
	}
	key, keyProblem := readKey(keyFile)
	if keyProblem != nil {
		r.fault(at+".key", keyFile, keyProblem)
	}
	if p != nil || keyProblem != nil {
		return pair, nil
	}
	pair = spec.Certificate{Chain: encode(chain), Key: string(pem.EncodeToMemory(key))}
	whole, err := tls.X509KeyPair([]byte(pair.Chain), []byte(pair.Key))
	if err != nil {
		r.fault(at+".key", keyFile, mismatch(err, chain, pair.Key))
		return pair, nil
	}
	r.secret(at+".key", keyFile)
	return pair, whole.Leaf
}

// Authorities reads certificates that sign others, as PEM. On a fault, which is noted,
// it gives none.
func (r *reader) Authorities(file, at string) string {
	r.note(file)
	found, p := readCertificates(file)
	if p != nil {
		r.fault(at, file, p)
		return ""
	}
	return encode(found)
}

// mismatch says why a key does not go with the first certificate of a chain.
func mismatch(err error, chain []*pem.Block, key string) *problem {
	for i := range chain[1:] {
		if _, err := tls.X509KeyPair(pem.EncodeToMemory(chain[i+1]), []byte(key)); err == nil {
			return &problem{"the key belongs to certificate " + strconv.Itoa(i+2) + " of the other file, not to its first",
				"put the certificate of the site first, then those that sign it"}
		}
	}
	if strings.Contains(err.Error(), "does not match") {
		return &problem{"the key does not belong to the certificate", "name the key that the certificate was asked for with"}
	}
	return &problem{strings.TrimPrefix(err.Error(), "tls: "), "use an RSA, ECDSA or Ed25519 key"}
}

// readCertificates gives the certificates of a file, at least one, each well-formed.
func readCertificates(file string) ([]*pem.Block, *problem) {
	const cure = `name a file with "-----BEGIN CERTIFICATE-----"`
	blocks, p := readBlocks(file)
	if p != nil {
		return nil, p
	}
	var found []*pem.Block
	keys := false
	for _, b := range blocks {
		keys = keys || strings.HasSuffix(b.Type, "PRIVATE KEY")
		if b.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return nil, &problem{"certificate " + strconv.Itoa(len(found)+1) + " cannot be understood: " + err.Error(), "ask for a new one"}
		}
		found = append(found, &pem.Block{Type: b.Type, Bytes: b.Bytes})
	}
	switch {
	case len(found) == 0 && keys:
		return nil, &problem{"holds a private key, and no certificate", cure}
	case len(found) == 0:
		return nil, &problem{"holds no certificate in PEM", cure}
	}
	return found, nil
}

// readKey gives the private key of a file.
func readKey(file string) (*pem.Block, *problem) {
	const cure = `name a file with "-----BEGIN PRIVATE KEY-----"`
	blocks, p := readBlocks(file)
	if p != nil {
		return nil, p
	}
	for _, b := range blocks {
		switch {
		case b.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED"):
			return nil, &problem{"the key is kept under a passphrase, which nobody could type in", "write it without: openssl pkey -in OLD -out NEW"}
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return &pem.Block{Type: b.Type, Bytes: b.Bytes}, nil
		}
	}
	if len(blocks) > 0 {
		return nil, &problem{"holds no private key", cure}
	}
	return nil, &problem{"holds no private key in PEM", cure}
}

// readBlocks gives all PEM blocks of a file.
func readBlocks(file string) ([]*pem.Block, *problem) {
	data, p := readFile(file)
	if p != nil {
		return nil, p
	}
	var blocks []*pem.Block
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			return blocks, nil
		}
		blocks = append(blocks, b)
	}
}

// readFile reads a file of bounded size.
func readFile(name string) ([]byte, *problem) {
	const other = os.ModeNamedPipe | os.ModeSocket | os.ModeDevice | os.ModeIrregular
	if info, err := os.Stat(name); err == nil && info.Mode()&other != 0 {
		return nil, &problem{"neither a file nor a link to one", "name a file that Sluice may read again and again"} // a pipe would be waited for
	}
	file, err := os.Open(name)
	var data []byte
	if err == nil {
		defer file.Close()
		data, err = io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	}
	var inner *fs.PathError
	switch {
	case errors.As(err, &inner):
		return nil, &problem{"cannot be read: " + inner.Err.Error(), "name a file that Sluice may read"}
	case err != nil:
		return nil, &problem{"cannot be read: " + err.Error(), "name a file that Sluice may read"}
	case len(data) > maxFileBytes:
		return nil, &problem{"larger than 1 MiB", "name a file in PEM"}
	}
	return data, nil
}

// encode writes blocks one after the other.
func encode(blocks []*pem.Block) string {
	var b bytes.Buffer
	for _, block := range blocks {
		pem.Encode(&b, block) // fails for no block without headers
	}
	return b.String()
}
