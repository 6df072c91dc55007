package testkit

import "strings"

// BrowserGET returns a head as large browsers send it.
func BrowserGET() string {
	return strings.ReplaceAll(`GET /articles/2026/11/weighing?ref=home HTTP/1.1
Host: www.example.org
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8
Accept-Language: en-GB,en;q=0.9,de;q=0.8
Accept-Encoding: gzip, deflate, br, zstd
Referer: https://www.example.org/
Connection: keep-alive
Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=yes
Upgrade-Insecure-Requests: 1
Sec-Fetch-Dest: document
Sec-Fetch-Mode: navigate
Sec-Fetch-Site: same-origin
Sec-Fetch-User: ?1
Sec-CH-UA-Platform: "Linux"
Priority: u=0, i

`, "\n", "\r\n")
}
