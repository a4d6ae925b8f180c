package demo

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
)

// page.html asks nothing of any other host: one file, light and dark.
//
//go:embed page.html
var pageHTML string

// answerMark is where the page takes the answer to the request that fetched it.
const answerMark = "ANSWER_JSON"

// pagePolicy lets the page run its own script and ask its own host, no more.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
	"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is the site's front page. It carries the facts of its own request; the
// JSON encoder escapes <, > and &, so no header can leave the script element.
func (a app) page(w http.ResponseWriter, r *http.Request) {
	facts, err := json.Marshal(a.answer(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	w.Write([]byte(strings.Replace(pageHTML, answerMark, string(facts), 1))) // fails only if the client has gone
}
