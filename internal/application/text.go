package application

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// textBytes is the size of the text that Text sends.
const textBytes = 1 << 20

// words are common in English. A text of them is about as compressible as prose in HTML.
const words = "the of and to in is that for it as was with be by on not he his but at are this have from or had an " +
	"they which one you were her all she there would their we him been has when who will more no if out so said " +
	"what up its about into than them can only other new some could time these two may then do first any my now " +
	"such like our over man me even most made after also did many before must through back years where much your " +
	"<p> </p> <a href=\"/page/ \"> </a> <li> </li> <h2> </h2>"

// Text sends a text of one megabyte, which is the same at each start.
func Text() http.Handler {
	text := makeText(textBytes)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the client may have gone
	})
}

// makeText returns a text of n bytes. Early words are more frequent than late ones.
func makeText(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	list := strings.Fields(words)
	text := make([]byte, 0, n+len(words))
	for len(text) < n {
		i := rnd.IntN(len(list)) * rnd.IntN(len(list)) / len(list)
		text = append(append(text, list[i]...), ' ')
		if rnd.IntN(12) == 0 {
			text = strconv.AppendInt(text, int64(rnd.IntN(10_000)), 10)
			text = append(text, '\n')
		}
	}
	return text[:n]
}
