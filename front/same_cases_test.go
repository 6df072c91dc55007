//go:build linux

package front_test

// matchCases are cases for the search of hosts and locations.
func matchCases() []sameCase {
	const names = `
server { server_name www.CASE.org CASE.org; return 200 "exact\n"; }
server { server_name *.CASE.org; return 200 "before\n"; }
server { server_name *.deep.CASE.org; return 200 "deeper\n"; }
server { server_name www.CASE.*; return 200 "after\n"; }
server { server_name www.CASE.co.*; return 200 "longer after\n"; }
server { server_name .CASE.net; return 200 "dot\n"; }
server { server_name ~^(?<who>[a-z]+)\d+\.CASE\.com$; return 200 "regex $who $1\n"; }
server { server_name ~CASE\.com$; return 200 "second regex\n"; }
`
	const locations = `server {
	location / { return 200 "root\n"; }
	location = / { return 200 "exact root\n"; }
	location /doc { return 200 "doc\n"; }
	location /doc/ { return 200 "doc/\n"; }
	location /documents/ { return 200 "documents\n"; }
	location ^~ /img/ { return 200 "img\n"; }
	location ~* \.(gif|jpg)$ { return 200 "picture $1\n"; }
	location ~ \.JPG$ { return 200 "never\n"; }
	location ~ ^/U/(?<name>\w+) { return 200 "user $name $1\n"; }
	location = /doc/exact { return 200 "exact\n"; }
}`
	return []sameCase{
		{name: "server names", servers: names, requests: []string{
			"/ |Host: CASE.org", "/ |Host: www.CASE.org", "/ |Host: WWW.CASE.ORG", "/ |Host: x.CASE.org",
			"/ |Host: a.b.CASE.org", "/ |Host: a.deep.CASE.org",
			"/ |Host: deep.CASE.org", "/ |Host: www.CASE.de", "/ |Host: www.CASE.co.uk", "/ |Host: www.CASE.",
			"/ |Host: CASE.net", "/ |Host: a.CASE.net",
			"/ |Host: xCASE.net", "/ |Host: bob12.CASE.com", "/ |Host: x.CASE.com", "/ |Host: CASE.org:8080",
			"/ |Host: CASE.org.", "/ |Host: CASE.org.:80",
			"/ |Host: none.example", "/ |Host: .CASE.org", "/ |Host: CASE..org", "http://CASE.org/ |Host: x.CASE.org",
			"http://CASE.org?q |Host: x", "/ |Host: [::1]:80",
			"/ |Host: BOB12.CASE.COM",
		}},
		{name: "locations", servers: locations, requests: []string{
			"/", "/x", "/doc", "/docs", "/doc/", "/doc/x", "/documents/", "/documents", "/img/x.gif", "/doc/x.gif",
			"/x.JPG", "/U/bob/x", "/u/bob", "/doc/exact",
			"/doc/exact/", "/doc/exact?x", "/%64oc/", "/doc/%2e%2e/img/x", "/doc/../x.gif", "//doc//x", "/a/%2f/../x",
			"/img/..", "/img/.", "/%", "/%zz", "/..", "/../x",
			"/x/../../y", "/doc/./x", "/%00", "/x%00.gif", "/%2e%2e/", "/doc/..%2fimg/x", "/doc%2fx", "/doc/x%3f.gif",
			"/./", "/...", "/.../x", "/a/..b/.c./x.gif",
			"OPTIONS *", "TRACE /", "CONNECT host", "HEAD /doc/", "POST /doc/", "x", "/doc//", "/doc/.//../",
			"/U/b%20b",
		}},
		{name: "nested", servers: `server {
	location /a/ {
		location /a/b/ { return 200 "a b\n"; }
		location ~ \.gif$ { return 200 "a gif\n"; }
		location = /a/exact { return 200 "a exact\n"; }
		return 200 "a\n";
	}
	location ^~ /f/ {
		location ~ \.gif$ { return 200 "f gif\n"; }
		location /f/x/ { return 200 "f x\n"; }
	}
	location ~ \.gif$ { return 200 "gif\n"; }
	location ~ ^/r/ {
		location ~ \.txt$ { return 200 "r txt\n"; }
		return 200 "r\n";
	}
	location /in/ { internal; return 200 "in\n"; }
	location /to-in { rewrite ^ /in/x last; }
	location /page-in { error_page 404 /in/y; return 404; }
}`, requests: []string{
			"/a/", "/a/b/", "/a/b/x.gif", "/a/x.gif", "/a/exact", "/f/x.gif", "/f/x/y", "/f/y", "/x.gif", "/r/x",
			"/r/x.txt", "/r/x.gif", "/in/", "/to-in", "/page-in",
		}},
		{name: "redirect to the slash", outer: "upstream upCASE { server 127.0.0.1:1; }", servers: `server {
	location /app/ { proxy_pass http://upCASE; }
	location /sp\ ace/ { proxy_pass http://upCASE; }
	location /two/ { proxy_pass http://upCASE; }
	location /two { return 200 "two\n"; }
	location /three/ { proxy_pass http://upCASE; }
	location = /three { return 200 "three\n"; }
	location ~ ^/app$ { return 200 "never\n"; }
}`, requests: []string{"/app", "/app?x=1", "/two", "/three", "/apps", "/sp%20ace", "/sp%20ace?a"}},
	}
}

// stepCases are cases for the rewrite phase.
func stepCases() []sameCase {
	return []sameCase{
		{name: "rewrites", servers: `server {
	rewrite ^/old/(.*)$ /new/$1;
	rewrite ^/twice/(.*)$ /old2/$1 last;
	rewrite ^/gone/(.*)$ http://other.example/$1 permanent;
	rewrite ^/temp/(.*)$ /x/$1 redirect;
	rewrite ^/perm/(.*)$ /x/$1? permanent;
	rewrite ^/perm2/(.*)$ /x/$1?z=1 permanent;
	rewrite ^/perm3/(.*)$ /x?y=$1&u=$uri permanent;
	rewrite ^/scheme/(.*)$ $scheme://h.example/$1;
	location /new/ { return 200 "new $uri $is_args$args\n"; }
	location /old2/ { rewrite ^/old2/(.*)$ /new/$1?a=$1 last; return 200 "never\n"; }
	location /noargs/ { rewrite ^/noargs/(.*)$ /new/$1? last; }
	location /arg/ { rewrite ^/arg/(.*)$ /new/x?p=$1&q=$arg_q? last; }
	location /brk/ { rewrite ^/brk/(.*)$ /a/$1 break; return 200 "never\n"; }
	location /brk2/ { set $x 1; rewrite ^/brk2/(.*)$ /a/$1; break; return 200 "never\n"; }
	location /chain/ { rewrite ^/chain/(.*)$ /chain2/$1; rewrite ^/chain2/(.*)$ /new/$1 last; }
	location /cycle { rewrite ^ /cycle last; }
	location /noflag/ { rewrite ^/noflag/(.*)$ /new/$1; return 200 "reached $uri\n"; }
	location /case/ { rewrite (?i)^/case/A$ /new/a last; return 200 "no\n"; }
	location /look/ { rewrite ^/look/(?!no)(\w+)$ /new/$1 last; return 200 "no\n"; }
	location /back/ { rewrite ^/back/(\w)\1$ /new/twice-$1 last; return 200 "no\n"; }
	location /opt/ { rewrite ^/opt(/(\w+))?/end(/(\w+))?$ /new/[$2][$4] last; return 200 "no\n"; }
	location /qm/ { rewrite ^/qm/(.*)$ /new/?a?b=$1 last; }
	location / { return 200 "root $uri\n"; }
}`, requests: []string{
			"/old/x", "/old/x?a=1", "/twice/x", "/twice/x?b=2", "/gone/x?y=1", "/gone/a%20b", "/temp/x",
			"/temp/x?a=1", "/perm/x?a=1", "/perm2/x?a=1", "/perm2/x", "/perm3/a%26b", "/perm3/a&b", "/perm3/a%3Fb",
			"/scheme/x?q", "/noargs/x?a=1", "/arg/v?q=7", "/arg/v?r=7", "/brk/x.txt", "/brk2/x.txt", "/chain/z?y",
			"/cycle", "/noflag/x", "/case/a", "/case/b", "/look/yes", "/look/no",
			"/back/aa", "/back/ab", "/opt/a/end/b", "/opt/end", "/opt/a/end", "/qm/x", "/temp/a%20b", "/temp/%C3%A4",
			"/temp/a%2Bb", "/temp/a%25b", "/old/a%20b", "/twice/a%26b", "/twice/a&b", "/twice/a+b",
			"/temp/a%0d%0ab", "/old/a%3Fb", "/temp/%26%3B%23",
		}},
		{name: "if and set", servers: `server {
	set $mobile 0;
	if ($http_user_agent ~* "(iphone|android)") { set $mobile $1; }
	if ($request_method = POST) { return 405; }
	if ($arg_go) { return 302 /went?$arg_go; }
	if ($host = www.CASE) { return 301 $scheme://CASE$request_uri; }
	if ($http_cookie ~ "id=([^;]+)(?:;|$)") { set $id $1; }
	if (-f $document_root/a$uri) { rewrite ^(.*)$ /a$1 last; }
	if (-d $request_filename) { set $dir yes; }
	if (!-e $request_filename) { set $missing yes; }
	location /one { return 200 "mobile=$mobile id=$id dir=$dir missing=$missing\n"; }
	location /a { return 200 "a $uri dir=$dir missing=$missing\n"; }
	location /neg { if ($arg_x != 5) { return 200 "not five\n"; } if ($arg_x !~ "^[0-9]$") { return 200 "never\n"; } return 200 "five\n"; }
	location /zero { set $z 0; if ($z) { return 200 "yes\n"; } set $z ""; if ($z) { return 200 "yes\n"; } set $z 00; if ($z) { return 200 "00 is true\n"; } return 200 "no\n"; }
	location /args { set $args "x=2"; return 200 "$args $query_string $arg_x $request_uri\n"; }
	location /in { if ($arg_b) { set $v 1; break; } set $v "$v 2"; return 200 "v=$v\n"; }
	location /late { set $early $later; set $later x; return 200 "[$early][$later]\n"; }
	location /cap { if ($uri ~ "^/cap/(\w+)/(\w+)") { set $first $1; } if ($arg_q ~ "^(\w)") { return 200 "$first $1 [$2]\n"; } return 200 "$first [$1] [$2]\n"; }
	location /CAP { if ($uri ~ "^/CAP/(\w+)") { set $k 1; } if ($uri ~ "CAP") { return 200 "[$1]\n"; } }
}`, requests: []string{
			"/one", "/one |User-Agent: my iPhone", "POST /one", "/one?go=3", "/one |Host: www.CASE",
			"/one |Cookie: a=b; id=7; c", "/x.txt", "/a/", "/a/none", "/a", "/neg?x=5", "/neg?x=6", "/zero",
			"/args?x=1",
			"/in", "/in?b=1", "/late", "/cap/a/b?q=zz", "/one?GO=1", "/one?a=1&go=2", "/one?xgo=2", "/CAP/x",
			"/one?go=",
		}},
		{name: "return", servers: `server {
	location /text { return 200 "text $arg_x"; }
	location /t.json { return 200 "{}"; }
	location /t.html { default_type text/css; return 200 "x"; }
	location /type { default_type text/css; return 200 "x"; }
	location /none { return 204; }
	location /nothing { return 200; }
	location /404 { return 404; }
	location /404t { return 404 "mine"; }
	location /301 { return 301 /there; }
	location /302 { return 302 https://x.example/?a=$arg_a; }
	location /307 { return 307 there; }
	location /308 { return 308 //x.example/; }
	location /url { return https://x.example$request_uri; }
	location /418 { return 418; }
	location /500 { return 500; }
	location /503 { return 503; }
	location /444 { return 444; }
	location /499 { return 499; }
	location /408 { return 408; }
	location /402 { return 402; }
	location /429 { return 429; }
	location /uri { return 301 https://x.example$uri; }
	location /rel { absolute_redirect off; return 301 /there; }
	location /prim { server_name_in_redirect on; return 301 /there; }
	location /port { port_in_redirect off; return 301 /there; }
	location /empty { return 301 ""; }
	location /tok { server_tokens off; return 403; }
}`, requests: []string{
			"/text?x=1", "HEAD /text", "/t.json", "/t.html", "/type", "/none", "/nothing", "/404", "/404t", "/301",
			"/302?a=b", "/307", "/308", "/url?a=1", "/418", "/500", "/503", "/444", "/499", "/408", "/402", "/429",
			"/uri/a%20b", "/rel", "/prim |Host: CASE", "/port", "/301 |Host: CASE:99", "/301 |Host: CASE",
			"POST /text", "HEAD /404", "/empty", "/tok", "HEAD /301",
		}},
	}
}

// fileCases are cases for files.
func fileCases() []sameCase {
	return []sameCase{
		{name: "static", servers: `server { }`, requests: []string{
			"/", "/index.html", "/a", "/a?x=1", "/a/", "/a/x.txt", "/a/x.txt/", "/b", "/b/", "/empty", "/empty/",
			"/none", "/none/", "/x.json", "/UPPER.HTML", "/noext", "/x%20y.txt", "/%C3%A4.txt", "/.hidden",
			"POST /a/x.txt", "POST /none", "POST /a", "POST /a/", "POST /empty/", "PUT /a/x.txt", "DELETE /none",
			"HEAD /a/x.txt", "OPTIONS /a/x.txt", "/sp%20ace", "/sp%20ace?q", "/d/a%2520b.txt", "/d/q%3Fm.txt",
			"/d/semi;colon.txt",
			"/a/index.html/", "/p/", "/a/x.txt?y", "/index.html%20",
		}},
		{name: "index", servers: `server {
	index index.$arg_i index.php index.html /e.html;
	location ~ \.php$ { return 200 "php $uri $is_args$args\n"; }
	location /i/ { alias ROOT/a/; index x.txt; }
	location /n/ { root ROOT/none; }
}`, requests: []string{"/", "/p/?x=1", "/a/", "/a/?i=html", "/empty/", "/i/", "/i", "/n/", "/n/x", "POST /p/", "PUT /p/"}},
		{name: "alias", servers: `server {
	location /i/ { alias ROOT/a/; }
	location /j { alias ROOT/a; }
	location = /fav { alias ROOT/fav.ico; }
	location /favp.ico { alias ROOT/fav.ico; }
	location ~ ^/u/(\w+)/(.*)$ { alias ROOT/$1/$2; }
	location /v/ { alias ROOT/$arg_d/; }
	location /f.css { alias ROOT/fav.ico; }
}`, requests: []string{"/i/x.txt", "/i/", "/i/b", "/i/b/deep.txt", "/i", "/j/x.txt", "/j", "/j/", "/fav", "/favp.ico", "/u/a/x.txt", "/u/b/x.html", "/u/b/none", "/v/x.txt?d=a", "/v/deep.txt?d=a/b", "/f.css", "/i/none", "/u/a/b"}},
		{name: "roots", servers: `server {
	location /b/ { root ROOT; }
	location / { root ROOT/$arg_r; }
	location /c/ { set $base ROOT; root $base/a; rewrite ^/c(/.*)$ $1 break; }
	location /z/ { set $all ROOT/d; root $all; rewrite ^/z(/.*)$ $1 break; }
}`, requests: []string{"/b/x.html", "/x.txt?r=a", "/deep.txt?r=a/b", "/fav.ico", "/c/x.txt", "/c/b/deep.txt", "/c/", "/z/main.css", "/z/none"}},
		{name: "try_files", servers: `server {
	location / { try_files $uri $uri/ /index.html; }
	location /spa/ { try_files $uri /e.html?from=$uri&$args; }
	location /c404/ { try_files $uri =404; }
	location /named/ { try_files $uri @fallback; }
	location /at/ { root ROOT/none; try_files $uri @fallback; }
	location @fallback { return 200 "fallback $uri $args\n"; }
	location /e.html { return 200 "e $uri $args\n"; }
	location /first/ { try_files /a/x.txt /e.html; }
	location /then/ { try_files /fav.ico =404; return 200 "no\n"; }
	location /al/ { alias ROOT/a/; try_files $uri $uri/ /al/x.txt; }
	location /dirs { try_files $uri/ /e.html; }
	location /code/ { try_files $uri =503; }
	location /q/ { try_files $arg_f /e.html; }
	location ~ \.php$ { try_files $uri =404; return 200 "never\n"; }
	location /loop/ { try_files /nope /loop/again; }
	location ~ ^/re/(.*)$ { alias ROOT/$1; try_files "" =404; }
}`, requests: []string{
			"/", "/a", "/a/", "/a/x.txt", "/none", "/none/", "/empty/", "/empty", "/spa/x?y=1", "/spa/x%3Fz?y=1",
			"/c404/x", "/named/x?q=1", "/at/x", "/first/x", "/then/x", "/al/x.txt", "/al/b", "/al/b/", "/al/none",
			"/dirs", "/d", "/code/x",
			"/q/x?f=/a/x.txt", "/q/x?f=/../secret", "/q/x?f=a", "/p/index.php", "/p/none.php", "/loop/x",
			"POST /none", "POST /a/x.txt", "HEAD /none",
		}},
		{name: "empty_gif", servers: `server { location /g { empty_gif; } }`, requests: []string{"/g", "HEAD /g", "POST /g"}},
		{name: "charset", servers: `server { charset utf-8; location /r { default_type text/plain; return 200 "x"; } location /j { default_type application/json; return 200 "{}"; } location /404 { return 404; } }`,
			requests: []string{"/", "/x.json", "/d/main.css", "/a/x.txt", "/r", "/j", "/404"}},
	}
}

// pageCases are cases for error pages.
func pageCases() []sameCase {
	return []sameCase{
		{name: "error pages", servers: `server {
	error_page 404 /e.html;
	error_page 500 502 503 504 /50x.html;
	error_page 403 = /r403;
	error_page 405 =200 /e.html;
	error_page 402 @named;
	error_page 410 =301 http://x.example/gone;
	error_page 409 http://x.example/conflict;
	error_page 429 =429 @named;
	error_page 418 = @named;
	error_page 406 /missing.html;
	error_page 407 =404 /e.html?code=$status;
	error_page 408 /loop;
	location /r403 { return 200 "r403 $request_method $uri $request_uri\n"; }
	location = /e.html { }
	location @named { return 200 "named $uri $args $request_method\n"; }
	location /500 { return 500; }
	location /503 { return 503; }
	location /403 { return 403; }
	location /402 { return 402; }
	location /410 { return 410; }
	location /409 { return 409; }
	location /429 { return 429; }
	location /418 { return 418; }
	location /406 { return 406; }
	location /407 { return 407; }
	location /408 { return 408; }
	location /loop { return 408; }
	location /own { error_page 404 /50x.html; return 404; }
	location /rec { recursive_error_pages on; error_page 404 /rec2; return 404; }
	location /rec2 { recursive_error_pages on; error_page 403 =200 /e.html; return 403; }
	location /cyc { recursive_error_pages on; error_page 404 /cyc; return 404; }
	location /301 { error_page 301 =200 /e.html; return 301 /x; }
	location /text { error_page 404 /e.html; return 404 "mine\n"; }
	location /var { error_page 404 /$arg_p; return 404; }
}`, requests: []string{
			"/none", "HEAD /none", "POST /none", "/500", "/503", "/403", "POST /403", "POST /e.html", "PUT /e.html",
			"/402?a=1", "POST /402", "/410", "/409", "/429", "/418", "/406", "/407", "/own", "/rec", "/cyc",
			"/301", "/text", "/var?p=e.html",
			"/var?p=none", "/empty/", "/../x", "/none |Range: bytes=0-1",
			"/none |If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT",
		}},
		{name: "server rewrites again", servers: `server {
	set $n "$n.";
	if ($uri = /blocked) { return 403; }
	error_page 403 /page;
	location /page { return 200 "page $n\n"; }
	location /x { rewrite ^ /y last; }
	location /y { return 200 "y $n\n"; }
	location /z { try_files /none /y; }
	rewrite ^/q$ /w;
	location /w { set $n "$n+"; return 200 "w $n\n"; }
	location /once { set $n "$n+"; rewrite ^/once$ /once2; set $n "$n-"; return 200 "never\n"; }
	location /once2 { set $n "$n+"; if ($arg_b) { break; } return 200 "once2 $n\n"; }
}`, requests: []string{"/blocked", "/x", "/y", "/z", "/q", "/w", "/once"}},
		{name: "errors at once", servers: `server { error_page 404 /none2; location / { } }`, requests: []string{"/none"}},
	}
}

// variableCases are cases for variables and maps.
func variableCases() []sameCase {
	return []sameCase{
		{name: "variables", servers: `server {
	location / { return 200 "host=$host http_host=$http_host uri=$uri duri=$document_uri ruri=$request_uri args=$args is=$is_args scheme=$scheme https=$https name=$server_name proto=$server_protocol method=$request_method request=$request addr=$remote_addr sport=$server_port saddr=$server_addr user=$remote_user cl=$content_length ct=$content_type\n"; }
	location /h { return 200 "$http_x_one|$http_x_two|$http_user_agent|$http_cookie|$cookie_a|$cookie_B|$cookie_none\n"; }
	location /arg { return 200 "$arg_a|$arg_b|$arg_A|${arg_a}x|$query_string\n"; }
	location /unnamed { return 200 "$arg_|$arg_a\n"; }
	location /file/ { return 200 "$request_filename $document_root $realpath_root\n"; }
	location /al/ { alias ROOT/a/; return 200 "$request_filename $document_root\n"; }
	location /sent { return 200 "$sent_http_location|$limit_rate|$request_completion|$pipe|$ssl_early_data|$gzip_ratio|$proxy_protocol_addr|$proxy_protocol_port|$connections_reading\n"; }
	location ~ ^/c/(\w)(\w)?$ { return 200 "$1|$2|$3|$10\n"; }
}`, requests: []string{
			"/", "/x%20y?a=b%20c", "http://other/x?y |Host: CASE", "/?", "/x |Authorization: Basic Ym9iOng=",
			"/x |Host: CASE:80", "/x |Host: CASE.", "POST /x |Content-Length: 0 |Content-Type: text/x",
			"/h |X-One: 1 |User-Agent: me |Cookie: a=1; b=2", "/h |Cookie: A=3;b= 4 ;c",
			"/h |Cookie: xa=1 |Cookie: a=2", "/arg?a=1&b=2", "/arg?A=1", "/arg?a", "/arg?a=&b", "/arg?xa=1&a=2",
			"/arg?b=%20&a=x=y", "/unnamed?=x&a=y", "/file/x", "/al/x", "/sent", "/c/ab", "/c/a",
		}},
		{name: "maps", outer: `map $arg_m $mCASE { default "d"; a one; B two; "" none; ~^x(\d+)$ "x$1"; ~*^y(?<ydigCASE>\d) "y$ydigCASE"; "\~t" tilde; "\default" def; c $uri; }
map $arg_h $hCASE { hostnames; default d; example.com e; *.example.com sub; .example.net net; www.example.* any; }
map "$arg_m:$arg_h" $bothCASE { "a:a" yes; default "no $mCASE"; }
geo $arg_ip $gCASE { default d; 10.0.0.0/8 ten; 10.1.0.0/16 ten-one; 10.1.2.3 host; 10.1.0.0/16 again; 2001:db8::/32 doc;
::ffff:10.1.2.0/120 mapped; ::ffff:9.0.0.0/104 mapped; ::ffff:0.0.0.0/95 short; 255.255.255.255 none; }
split_clients "$arg_s" $sCASE { 20% a; 30.5% b; * c; }`, servers: `server { location / { return 200 "$mCASE|$hCASE|$bothCASE|$gCASE|$sCASE\n"; }
	location ~ ^/cap/(\w+) { set $before $1; return 200 "$before $mCASE\n"; } }`, requests: []string{
			"/?m=a", "/?m=A", "/?m=b", "/", "/?m=x12", "/?m=X12", "/?m=Y3", "/?m=~t", "/?m=default", "/?m=c",
			"/?m=zz", "/?h=example.com", "/?h=EXAMPLE.com.", "/?h=a.b.example.com", "/?h=example.net",
			"/?h=x.example.net", "/?h=www.example.org", "/?m=a&h=a",
			"/?ip=10.2.3.4", "/?ip=10.1.9.9", "/?ip=10.1.2.3", "/?ip=9.9.9.9", "/?ip=x", "/?ip=2001:db8::1",
			"/?ip=2002::1", "/?ip=::ffff:10.1.2.3", "/?ip=::ffff:9.1.2.3", "/?ip=::fffe:9.1.2.3",
			"/?s=a", "/?s=b", "/?s=c", "/?s=abcd", "/?s=abcde", "/?s=abcdef", "/?s=abcdefg", "/?s=1", "/?s=2",
			"/?s=3", "/?s=4", "/?s=127.0.0.1", "/?s=hello%20world", "/cap/z?m=x1",
		}},
	}
}
