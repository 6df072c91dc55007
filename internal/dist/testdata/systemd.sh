# Lets a systemd of its own run the unit of the Debian package: process 1 of namespaces that end with
# it, in a root of its own. Arguments: an empty folder, the package, a file for the result, the folder
# of an unpacked logrotate.
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
cp "$2" "$1/upper/tare.deb"
cp -r "$4" "$1/upper/unpacked"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --bind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs sys
mkdir -p sys/fs/cgroup run/systemd/system etc/systemd/system/tare.service.d
mount -t cgroup2 cgroup2 sys/fs/cgroup
touch result
mount --bind "$3" result
ip link set lo up
chroot . dpkg -i /tare.deb >/dev/null
mkdir -p var/www/html
echo "it works" >var/www/html/index.html

# None of this machine's units is started.
ln -s /dev/null run/systemd/system/network-online.target
printf '[Unit]\nDefaultDependencies=no\n' >etc/systemd/system/tare.service.d/test.conf
printf '[Unit]\nDefaultDependencies=no\nWants=check.service\n' >run/systemd/system/check.target
printf '[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sh /check.sh\nStandardOutput=file:/result\nStandardError=file:/result\n' \
	>run/systemd/system/check.service

cat >check.sh <<'END'
set -u
end() { systemctl exit --force 2>/dev/null || kill -KILL 1; exit; }
fail() {
	echo "failed: $*"
	systemctl status tare --no-pager
	cat /var/log/tare/error.log
	end
}
eventually() { # up to a minute
	for try in $(seq 600); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		sleep 0.1
	done
	fail "$@"
}
serves() { test "$(curl -sS --max-time 5 http://127.0.0.1/)" = "$1"; }
main() { systemctl show -P MainPID tare; }
is_active() { test "$(systemctl is-active tare)" = active; }

systemctl start tare || fail start
is_active || fail "not active after its start"
serves "it works" || fail "serves after the start"
first=$(main)
test "$(stat -c %U "/proc/$first")" = www-data || fail "the user is not www-data"
grep -q "^NoNewPrivs:[[:space:]]*1" "/proc/$first/status" || fail "new privileges"
grep -q "^Seccomp:[[:space:]]*2" "/proc/$first/status" || fail "no filter of system calls"

echo "server { listen 8081; return 200 reloaded; }" >/etc/tare/more.conf
sed -i 's|^http {|http { include /etc/tare/more.conf;|' /etc/tare/nginx.conf
systemctl reload tare || fail reload
reloaded() { test "$(curl -sS --max-time 5 http://127.0.0.1:8081/)" = reloaded; }
eventually reloaded
test "$(main)" = "$first" || fail "a reload has changed the process"

libs=$(echo /unpacked/usr/lib/*-linux-gnu* /unpacked/lib/*-linux-gnu* | tr " " :)
LD_LIBRARY_PATH=$libs /unpacked/usr/sbin/logrotate -f -s /run/rotated /etc/logrotate.d/tare || fail logrotate
test -s /var/log/tare/access.log.1 || fail "no rotated log"
reopened() { serves "it works" && grep -q "GET / " /var/log/tare/access.log; }
eventually reopened
test "$(stat -c %U:%a /var/log/tare/access.log)" = www-data:640 || fail "the new log's owner and mode"

dpkg -i /tare.deb >/dev/null 2>&1 || fail "dpkg -i"
upgraded() { test "$(main)" != "$first"; }
eventually upgraded
is_active || fail "not active after an upgrade"
serves "it works" || fail "serves after the upgrade"
old_ended() { ! test -e "/proc/$first"; }
eventually old_ended
is_active || fail "not active after the end of the old process"

second=$(main)
kill -KILL "$second"
restarted() { is_active && test "$(main)" != "$second" && serves "it works"; }
eventually restarted

systemctl stop tare || fail stop
test "$(systemctl is-failed tare)" = inactive || fail "failed after its stop"
if serves "it works" 2>/dev/null; then fail "serves after its stop"; fi

systemctl start tare || fail "start again"
dpkg -r tare >/dev/null 2>&1 || fail "dpkg -r"
if serves "it works" 2>/dev/null; then fail "serves after its removal"; fi
if systemctl cat tare >/dev/null 2>&1; then fail "the unit is left"; fi
echo "all passed"
end
END
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=other chroot . /lib/systemd/systemd --system --unit=check.target
