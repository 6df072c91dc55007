package conf

// Text is text in which $name and ${name} stand for variables, as in nginx:
// "https://$host$request_uri". As there, a literal dollar sign cannot be written.
type Text string
