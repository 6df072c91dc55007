# adapt.pl rewrites files of nginx's tests for programs that are as strict as RFC 9112 and RFC 9113.
# With -http2 the file is a configuration, which it rewrites for nginx 1.22. docs/nginx-tests.md says why.
use strict;
use warnings;

my $http2 = $ARGV[0] eq '-http2' && shift;

for my $file (@ARGV) {
	local $/;
	open my $in, '<', $file or die "$file: $!";
	local $_ = <$in>;
	if ($http2) {
		http2();
	} else {
		spelling();
		heads();
		module() if $file =~ /Nginx\.pm$/;
		frames() if $file =~ /HTTP2\.pm$/;
		upstreams() if $file =~ /(grpc|proxy_h2)[^\/]*$/;
	}
	open my $out, '>', $file or die "$file: $!";
	print $out $_;
}

# http2 moves the directive http2 to the parameters of listen. A port of nginx 1.22 has one protocol,
# so those that the same configuration forwards requests to keep HTTP/1, except the first.
sub http2 {
	my ($first) = /\blisten\s+([\w.:]+)/;
	my $http1 = join '|', (grep { $_ ne ($first // '') } /_pass +http:\/\/([\w.]+:\d+)/g), 'none';
	my $everywhere = s/^(    |)http2 +on;//m;
	s{\bserver\s*(\{(?:[^{}]++|(?1))*\})}{
		my $server = $1;
		my $on = $server =~ s/\bhttp2 +(on|off);// ? $1 eq 'on' : $everywhere;
		$server =~ s/(\blisten\s++(?!$http1)[^;]*)(?<! http2);/$1 http2;/g if $on;
		"server $server";
	}ge;
}

# spelling writes names of fields as Go does.
sub spelling {
	s/\b(X-[A-Za-z][\w-]*)/join '-', map { ucfirst lc } split m!-!, $1, -1/ge;
}

# heads ends the lines of heads in CRLF.
sub heads {
	s/(<<(["']?)(EOF|END)\2)/Test::Nginx::head($1)/g;
	s/(->print\()("(?:HTTP|Content-).*\\n")\);/$1Test::Nginx::head($2));/g;
	s/: \(\.\*\)\$\/m/: (.*?)\\r?\$\/m/g;
}

# replace fails if the suite no longer has the text.
sub replace {
	my ($pattern, $text) = @_;
	s/$pattern/$1$text/ or die "no text of the suite matches $pattern";
}

sub module {
	replace(qr/^(sub http_start\(.*?\tmy \$s;\n)/ms, "\t\$request = head(\$request);\n");
	replace(qr/^(sub http_end\(.*?getline\(\);\n)/ms,
		<<'REPLY');
		$reply =~ s!^HTTP/1[.]0!HTTP/1.1! if defined $reply;
		$reply =~ s/^Etag:/ETag:/m, $reply =~ s/^Www-Authenticate:/WWW-Authenticate:/mg if defined $reply;
REPLY
	replace(qr/^()(?=sub log_core )/m, <<'HEAD');
sub head {
	my ($head, $rest) = split /(?<=\n)\r?\n/, $_[0], 2;
	return $_[0] unless ($head // '') =~ m!^(\S+ .*HTTP/\d\.\d\r?\n|HTTP/\d\.\d \d|\d{3} [A-Z]+\n|Content-\w+: .*\n\z)!;
	$head =~ s/\r?\n/\r\n/g;
	return defined $rest ? "$head\r\n" . head($rest) : $head;
}

HEAD
}

sub frames {
	# SETTINGS, and its ACK.
	replace(qr/(return \$self if \$extra\{pure\};\n)/, "\t\$self->h2_settings(0) unless defined \$extra{preface};\n");
	replace(qr/(\{ type => 'SETTINGS'\})/, ', { fin => 1 }');
	# No padding of eight bits.
	replace(qr/(\(8 - length\(\$ret\) % 8\))/, ' % 8');
	# No frame of more than 16384 bytes.
	replace(qr/^(sub pack_body \{\n.*?\n)/m, <<'DATA');
	if (length($body) > 16384) {
		my $first = pack_body($ctx, substr($body, 0, 16384, ''), 0x0, $extra);
		return $first . pack_body($ctx, $body, $flags, $extra);
	}
DATA
	replace(qr/()(?=\tmy \$split = ref \$uri->\{continuation\})/, <<'HEADERS');
	if (length($input) > 16384 && !defined $uri->{continuation}) {
		$uri->{continuation} = [(16384) x int((length($input) - 1) / 16384)];
		substr($buf, 4, 1) = chr(ord(substr($buf, 4, 1)) & ~0x4);
	}
HEADERS
}

# upstreams closes connections that nginx would not use again.
sub upstreams {
	my $close = 'if ($client) { close $client; undef $client; select undef, undef, undef, 0.1 }';
	s/(\(\$uri, my %extra\) = \@_;\n)/$1\t\tunless (\$extra{reuse}) { $close }\n/;
	s/while \((my |)\$client = (\$server->accept\(\))\)/my \$last; while ($1\$client = do {
		if (\$last) { shutdown \$last, 1; select undef, undef, undef, 0.2; close \$last }
		\$last = $2 })/;
}
