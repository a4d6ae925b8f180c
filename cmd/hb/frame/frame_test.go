package frame

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// long is a block of fields that needs two Continuations.
var long = bytes.Repeat([]byte("x"), 2*MaxPayload+1)

// Each frame that is appended is what golang.org/x/net reads.
func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string // as the Framer describes what it has read
	}{
		{"data", Append(nil, Data, EndStream, 3, []byte("abc")), `[FrameHeader DATA flags=END_STREAM stream=3 len=3]`},
		{"settings", AppendSettings(nil, Setting{EnablePush, 0}, Setting{InitialWindowSize, 1 << 30}), `[FrameHeader SETTINGS len=12]`},
		{"settings taken", Append(nil, Settings, Ack, 0, nil), `[FrameHeader SETTINGS flags=ACK len=0]`},
		{"window", AppendWindowUpdate(nil, 5, 1<<31-1), `[FrameHeader WINDOW_UPDATE stream=5 len=4]`},
		{"reset", AppendReset(nil, 7, Cancel), `[FrameHeader RST_STREAM stream=7 len=4]`},
		{"ping", Append(nil, Ping, Ack, 0, []byte("12345678")), `[FrameHeader PING flags=ACK len=8]`},
		{"headers", AppendHeaders(nil, 1, long[:MaxPayload], true), `[FrameHeader HEADERS flags=END_STREAM|END_HEADERS stream=1 len=16384]`},
		{"continued", AppendHeaders(nil, 1, long[:MaxPayload+1], true), `[FrameHeader HEADERS flags=END_STREAM stream=1 len=16384] [FrameHeader CONTINUATION flags=END_HEADERS stream=1 len=1]`},
		{"twice", AppendHeaders(nil, 1, long, false), `[FrameHeader HEADERS stream=1 len=16384] [FrameHeader CONTINUATION stream=1 len=16384] [FrameHeader CONTINUATION flags=END_HEADERS stream=1 len=1]`},
	} {
		var got []string
		in := bytes.NewReader(c.bytes)
		for framer := http2.NewFramer(nil, in); in.Len() > 0; {
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got = append(got, f.Header().String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, strings.Join(got, " "), c.want)
		}
	}
}

// Each frame that golang.org/x/net writes is read as what it is.
func TestParse(t *testing.T) {
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	written := func(err error) (Head, []byte) {
		t.Helper()
		defer b.Reset()
		if err != nil {
			t.Fatal(err)
		}
		h := ParseHead(b.Bytes())
		if h.Length != b.Len()-HeadBytes {
			t.Fatalf("length %d of %d bytes", h.Length, b.Len())
		}
		return h, bytes.Clone(b.Bytes()[HeadBytes:])
	}
	h, payload := written(framer.WriteDataPadded(9, true, []byte("content"), make([]byte, 20)))
	content, err := Content(h, payload)
	if h.Type != Data || h.Flags != EndStream|Padded || h.Stream != 9 || err != nil || string(content) != "content" {
		t.Errorf("%+v, %q, %v", h, content, err)
	}
	h, payload = written(framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1<<31 - 1, BlockFragment: []byte("block"), PadLength: 3, Priority: http2.PriorityParam{Weight: 200}, EndHeaders: true,
	}))
	content, err = Content(h, payload)
	if h.Type != Headers || h.Stream != 1<<31-1 || err != nil || string(content) != "block" {
		t.Errorf("%+v, %q, %v", h, content, err)
	}
	_, payload = written(framer.WriteRSTStream(1, http2.ErrCodeRefusedStream))
	if code, err := ParseReset(payload); code != RefusedStream || err != nil {
		t.Errorf("%v, %v", code, err)
	}
	_, payload = written(framer.WriteWindowUpdate(1, 77))
	if bytes, err := ParseWindowUpdate(payload); bytes != 77 || err != nil {
		t.Errorf("%v, %v", bytes, err)
	}
	_, payload = written(framer.WriteGoAway(5, http2.ErrCodeNo, []byte("bye")))
	if last, code, err := ParseGoAway(payload); last != 5 || code != NoError || err != nil {
		t.Errorf("%v, %v, %v", last, code, err)
	}
	_, payload = written(framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 7}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20}))
	var got []Setting
	err = ParseSettings(payload, func(s Setting) error { got = append(got, s); return nil })
	if err != nil || len(got) != 2 || got[0] != (Setting{MaxConcurrentStreams, 7}) || got[1] != (Setting{MaxFrameSize, 1 << 20}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFaults(t *testing.T) {
	data := func(flags Flags, payload string) error {
		_, err := Content(Head{Type: Headers, Flags: flags}, []byte(payload))
		return err
	}
	settings := func(payload string, fault error) error {
		return ParseSettings([]byte(payload), func(Setting) error { return fault })
	}
	ofSize := func(parse func([]byte) error, n int) error { return parse(make([]byte, n)) }
	reset := func(b []byte) error { _, err := ParseReset(b); return err }
	window := func(b []byte) error { _, err := ParseWindowUpdate(b); return err }
	goAway := func(b []byte) error { _, _, err := ParseGoAway(b); return err }
	odd := errors.New("odd")
	for name, c := range map[string]struct{ got, want error }{
		"no padding":            {data(Padded, ""), errPadding},
		"padding alone":         {data(Padded, "\x02ab"), nil},
		"too much padding":      {data(Padded, "\x03ab"), errPadding},
		"priority":              {data(HasPriority, "12345"), nil},
		"half a priority":       {data(HasPriority, "1234"), errPadding},
		"padding and priority":  {data(Padded|HasPriority, "\x0112345"), errPadding},
		"six bytes of settings": {settings("123456", nil), nil},
		"five":                  {settings("12345", nil), errSize},
		"a bad setting":         {settings("123456", odd), odd},
		"reset":                 {ofSize(reset, 4), nil},
		"short reset":           {ofSize(reset, 3), errSize},
		"long reset":            {ofSize(reset, 5), errSize},
		"short window":          {ofSize(window, 3), errSize},
		"long window":           {ofSize(window, 5), errSize},
		"short goaway":          {ofSize(goAway, 7), errSize},
		"goaway with a text":    {ofSize(goAway, 9), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestCodes(t *testing.T) {
	for code := range Code(0xf) {
		want := http2.ErrCode(code).String()
		if code == 0xe {
			want = "code 0xe"
		}
		if got := code.String(); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}
