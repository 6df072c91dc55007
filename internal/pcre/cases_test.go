package pcre

// expressions are compared with nginx: whether they compile, whether they match, and their first
// groups.
func expressions() []string {
	return []string{
		`^/a`, `\.php$`, `(\d+)/(\w*)`, `a++`, `a++a`, `(a+)+b`, `(?>a+)b`, `(?>a|ab)c`, `a*+b`, `[ab]{2,3}+a`,
		`a{2}{3}`, `a**`, `a+*`, `^*`, `\b*`, `(?=a)*b`, `(?=a){2}a`,
		`(?!/b)`, `(?<!a)b`, `(?<=a|bb)c`, `(?<=a+)b`, `(?<=ab(?:c|d))e`, `(?<=ab(?:c|de))e`, `(.)\1`, `(?i)(.)\1`,
		`(?P<n1>a)(?P=n1)`, `(?<n2>a)\k<n2>`, `(?'n3'a)\k{n3}`, `(a)\g1`, `(a)\g{-1}`,
		`(a)(b)\g{-2}`, `(?<n4>a)\g{n4}`, `\Aa`, `/\z`, `b\Z`, `\h+`, `\H+$`, `\R`, `\v`, `\V+$`, `\N+`, `\Qa.b\E`,
		`\Qa.\E+`, `\Q\E+`, `[[:alpha:]]+`, `[[:^alpha:]]`, `[[:punct:]]`, `[[:nosuch:]]`, `[:alpha:]`,
		`[[.a.]]`, `[[:word:]-z]`, `[\d-z]`, `[a-\d]`, `[\d-]`, `[]a]`, `[^]a]`, `[]`, `[a`, `[z-a]`, `[\]]`, `[\b]`,
		`[a\-z]`, `[a-c-e]`, `[\x61-\x63]`, `[^\xff]+$`, `[\xe0-\xff]+`, `[\Qa-z\E]`,
		`(?#comment)a`, `a(?#comment)*`, `(?x) a b # c`, `(?x) a +`, `(?i)ABC`, `a(?i)b|c`, `(?i:A)b`, `(?-i)a`,
		`(?s).`, `(?m)^a`, `(?m)a$`, `(?U)a+`, `(?U)a+?`, `(?^)a`, `(?n)(a)(?<n5>b)`, `(?J)a`, `(?xx)[a b]`,
		`(a)?(?(1)b|c)`, `(?<n6>a)?(?(<n6>)b|c)`, `(?<n7>a)?(?(n7)b)`, `(?(?=a)ab|cd)`, `(?(?!a)b|a)`,
		`(?(1)a|b|c)(x)`, `(a)|(b)`, `(?|(a)x|(b)y)`, `((a)|b)*`, `(a*)*`, `(a*)+`, `(a|b)*?c`, `(|a)+`, `(?:a?)*b`,
		`(a?)*?b`,
		`\pL+`, `\p{Lu}`, `\P{L}`, `\p{^L}`, `\p{Latin}`, `\p{Nosuch}`, `\X`, `\C`, `a\Kb`, `\Ga`, `\x`, `\x6`, `\x61`,
		`\x{61}`, `\x{100}`, `\o{141}`, `\141`, `\0`, `\08`, `\12`, `\81`, `(a)\2`, `\1(a)`, `\cA`, `\e`,
		`\y`, `\i`, `\_`, `\-`, `\/`, `a{,3}`, `a{2`, `a{x}`, `a{1,2}b`, `a{3,2}`, `a{65536}`, `a{1001}`, `{`, `a|*`,
		`|a`, `(`, `)`, `()`, `(?:)`, `(?`, `(?<a`, `(?<1a>b)`, `(?<n8>a)|(?<n8>b)`, `(?z)a`, `\`,
		"\xc0\xae", "^/.$", "^/..$", `^/\W$`, `^/\xe9$`, "(?i)\xe9", "(?i)k", "(?i)[k]", "(?i)[[:upper:]]+",
		"(?i)[^a]", `\w+$`, `\s`, `\d+`, `[\h]`, `[\V]`, `^(/.*)$`, `(.*)$`, `(?=.*b)(?=.*a)`, `^(?!.*\.\.).*$`,
		`(?i)\p{Lu}`, `(?i)[\p{Lu}]`, `(a(?=b))\w`, `(?=(a))`, `(?!(a))`, `(?<=(a))b`, `(?<=^|/)a`, `x*`,
		`(?:(?:(a)|b)(?:c|(d)))+`, `(\w+)@(\w+)\.(?:com|org)`, `^(.+?)/?$`, `^(.*?)(?:/(\d+))?$`, `(?<!\.min)\.js$`,
		`[a-z]+(?<!b)$`, `(a|ab)(c|bcd)(d*)`, `(?<=\Ka)`, `(?<=ab|a)b`, `(?<=\b)a`, `(?<=(?=a))a`, `(ab)*+a`,
		`(?:ab)?+ab`, `((?>a*))a`, `$^`, `a$b`, `(?m)$`, `^(a+)\1$`, `(?i)\Qab\E`, `[\N]`, `[\R]`, `(*UTF8)é`,
		`(*UTF).`,
		`(?<n9>a)(?i)\k<n9>`, `\g{+1}(a)`, `(?-1)`, `a{0}b`, `(a){0}b`, `(a){0,1}`, `(?:a|b){2,}c`,
		`[[:alpha:][:digit:]-]`, `[--a]`, `[a-]`, `[-a]`, `[+--]`, `[\x00-\x1f]`, `[^\s/]+`, `.{2,}?b`, `\b\w`, `a\B.`,
	}
}

func subjects() []string {
	return []string{
		"/", "/a", "/aa", "/aaa", "/aaaab", "/ab", "/abc", "/abcd", "/ba", "/bbc", "/abde", "/a.b", "/a.php", "/A.PHP",
		"/x.php\n", "/a\n", "/a\nb", "/a\r\nb", "/12/ab", "/aaaaaa", "/k\xe2\x84\xaa", "/K", "/S\xc5\xbf",
		"/\xe9", "/\xc9", "/é", "/\xc0\xae", "/\xff", "/\x85", "/\xa0", "/ \t", "/é/ü", "/a b", "/cd", "/a-z", "/]",
		"/[", "/:", "/-", "/_", "/{", "/a{2", "/a{,3}", "/d/ef@gh.com", "/x.min.js", "/x.js", "/aacd", "/abcacbd",
		"/\x01", "/\x1b", "/aA", "/Aa", "/a\nbc\n", "/a.", "/a..", "/yy", "/ax", "/by",
	}
}

// shown returns the result of Find as the nginx configuration writes it.
func shown(s string, bounds []int) string {
	if bounds == nil {
		return "no"
	}
	out := "y"
	for n := 1; n <= 3; n++ {
		out += "["
		if 2*n+1 < len(bounds) && bounds[2*n] >= 0 {
			out += s[bounds[2*n]:bounds[2*n+1]]
		}
		out += "]"
	}
	return out
}
