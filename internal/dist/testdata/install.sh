# Installs, runs, upgrades and removes the Debian package in a root of its own: this machine's files
# with a layer in memory above them. Arguments: an empty folder, the package, the unit's command, the
# version, an older package whose configuration files differ. It runs in namespaces that end with it.
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
cp "$2" "$1/upper/tare.deb"
cp "$5" "$1/upper/old.deb"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
ip link set lo up

cat >"$1/root/inside.sh" <<'END'
set -eu
start=$1 version=$2
fail() { echo "failed: $*"; cat /var/log/tare/error.log 2>/dev/null || true; exit 1; }
eventually() { # up to a minute
	for try in $(seq 600); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		sleep 0.1
	done
	fail "$@"
}

# An upgrade keeps the configuration that the administrator has changed, and replaces the others.
dpkg -i /old.deb
grep -q "^# old" /etc/tare/nginx.conf || fail "the older configuration"
echo "# mine" >>/etc/tare/nginx.conf
dpkg --force-confold -i /tare.deb
grep -q "^# mine" /etc/tare/nginx.conf || fail "a changed configuration was replaced"
if grep -q "^# old" /etc/logrotate.d/tare; then fail "an unchanged configuration file was kept"; fi
mv /etc/tare/nginx.conf.dpkg-dist /etc/tare/nginx.conf

tare version | grep -F "tare $version " || fail version
tare serve -h >/dev/null
dpkg -V tare || fail "dpkg -V"

# There is no network, and so no module to build: the program itself serves.
mkdir /empty
cd /empty
HOME=/empty tare weigh cores --only tare --blocks 1 --measure 200ms --warmup 0s || fail weigh
test -e results/*/report.html || fail "no report"
cd /
rm -r /empty

# What systemd does before the unit's command.
for dir in /run/tare /var/log/tare /var/lib/tare /var/cache/tare; do
	install -d -o www-data -g www-data "$dir"
done
mkdir -p /var/www/html
echo "it works" >/var/www/html/index.html
unit() {
	exec setpriv --reuid=www-data --regid=www-data --clear-groups --no-new-privs \
		--inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
		--bounding-set=-all,+net_bind_service "$@"
}
serves() { test "$(curl -sS --max-time 5 http://127.0.0.1/)" = "it works"; }

(unit $start) &
eventually serves
old=$(cat /run/tare/tare.pid)
test "$(stat -c %U /proc/"$old")" = www-data || fail "the user is not www-data"
test -s /var/log/tare/access.log || eventually test -s /var/log/tare/access.log

mv /var/log/tare/access.log /var/log/tare/access.log.1
kill -USR1 "$old"
eventually test -e /var/log/tare/access.log

replaced() { new=$(cat /run/tare/tare.pid) && test "$new" != "$old"; }
dpkg -i /tare.deb
kill -USR2 "$old"
eventually replaced
serves || fail "after the upgrade"
kill -TERM "$(cat /run/tare/tare.pid)"
wait
ended() { ! curl -sS --max-time 5 http://127.0.0.1/; }
eventually ended

dpkg -r tare
if [ -e /usr/bin/tare ] || [ ! -e /etc/tare/nginx.conf ]; then fail "after dpkg -r"; fi
dpkg -P tare
for path in /etc/tare /var/log/tare /var/lib/tare /etc/logrotate.d/tare /usr/share/doc/tare; do
	if [ -e "$path" ]; then fail "$path is left"; fi
done
echo "all passed"
END
chroot "$1/root" sh /inside.sh "$3" "$4"
