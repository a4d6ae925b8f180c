package http1

// extState is where in a chunk extension we stand (RFC 9112 7.1.1):
//
//	chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )
type extState uint8

const (
	extGap       extState = iota // white space before a semicolon
	extSemicolon                 // after it
	extName
	extNameGap // white space after a name
	extEquals  // after the equals sign
	extToken
	extQuoted
	extEscape // after a backslash in quotes
	extQuoteEnd
)

// extensionByte takes one byte of a chunk extension. Extensions mean nothing to
// a recipient that does not know them, so they are checked and left out.
func (d *Body) extensionByte(c byte) error {
	if d.line++; d.line > chunkLineBytes {
		return errChunkLine
	}
	if d.extended++; d.extended > extensionBytes+d.total {
		return errExtensions
	}
	if c == '\r' {
		if d.ext != extName && d.ext != extToken && d.ext != extQuoteEnd {
			return errChunkExt
		}
		d.state = inSizeLF
		return nil
	}
	next, ok := d.ext.after(c)
	if !ok {
		return errChunkExt
	}
	d.ext = next
	return nil
}

// after is the state that byte c leads to.
func (s extState) after(c byte) (next extState, ok bool) {
	space, token := c == ' ' || c == '\t', class[c]&tokenChar != 0
	switch s {
	case extQuoted:
		switch c {
		case '\\':
			return extEscape, true
		case '"':
			return extQuoteEnd, true
		}
		return extQuoted, class[c]&quotedChar != 0
	case extEscape:
		return extQuoted, class[c]&quotedChar != 0 || c == '"' || c == '\\'
	case extSemicolon:
		if token {
			return extName, true
		}
		return extSemicolon, space
	case extEquals:
		if token {
			return extToken, true
		}
		if c == '"' {
			return extQuoted, true
		}
		return extEquals, space
	case extName, extToken:
		if token {
			return s, true
		}
	}
	return s.between(c, space)
}

// between is the state after a byte that ends a name or a value, or stands
// behind one.
func (s extState) between(c byte, space bool) (next extState, ok bool) {
	switch {
	case c == ';':
		return extSemicolon, true
	case c == '=' && (s == extName || s == extNameGap):
		return extEquals, true
	case space && (s == extName || s == extNameGap):
		return extNameGap, true
	case space:
		return extGap, true
	}
	return s, false
}
