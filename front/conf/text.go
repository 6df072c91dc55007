package conf

// Text is text in which $name and ${name} stand for variables, as in nginx:
// "https://$host$request_uri". As there, a literal dollar sign cannot be written.
type Text string

// PlacedText is a Text with its directive and its position in the configuration, for messages.
type PlacedText struct {
	Text           Text
	Directive, Pos string
}
