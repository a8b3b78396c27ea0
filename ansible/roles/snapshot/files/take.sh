#!/bin/sh
# take.sh FOLDER ENDPOINT CREDENTIALS: save etcd's state to FOLDER/etcd.snapshot, and prove that it can be read: restore it
# aside, start an etcd over it that only listens on sockets in FOLDER, and count the keys. What fails leaves no FOLDER.
set -eu
folder=$1 endpoint=$2 credentials=$3
export ETCDCTL_API=3
umask 077
rm -rf "$folder"
mkdir -p "$folder"
remote() {
  etcdctl --endpoints "$endpoint" --cacert "$credentials/ca.crt" --cert "$credentials/server.crt" \
    --key "$credentials/server.key" "$@"
}
reader=
ends() {
  code=$?
  [ -z "$reader" ] || { kill "$reader" && wait "$reader"; } 2>/dev/null || true
  [ "$code" = 0 ] || rm -rf "$folder"
}
trap ends EXIT
trap 'exit 1' HUP INT TERM

# The disk is often etcd's own, and an etcd whose disk is full stops. Two copies, and the logs that the reader lays out.
size=$(remote endpoint status --write-out fields | sed -n 's/^"DBSize" : //p')
[ -n "$size" ] || exit 1
need=$((size * 2 / 1048576 + 200))
free=$(df --block-size=1M --output=avail "$folder" | tail -n 1 | tr -d ' ')
[ "$free" -ge "$need" ] || {
  echo "the disk of $folder has $free MiB free, and a snapshot that is read back needs $need MiB: make room," \
    "or name a folder on another disk: -e wharf_snapshot_dir=FOLDER" >&2
  exit 1
}

remote snapshot save "$folder/etcd.snapshot" >/dev/null
etcdctl snapshot restore "$folder/etcd.snapshot" --data-dir "$folder/read-back" >/dev/null 2>"$folder/log" || {
  cat "$folder/log" >&2
  echo "the snapshot cannot be restored: it was not kept" >&2
  exit 1
}
cd "$folder"
etcd --data-dir read-back --listen-client-urls unix://client.sock:0 --advertise-client-urls unix://client.sock:0 \
  --listen-peer-urls unix://peer.sock:0 --log-level error >"$folder/log" 2>&1 &
reader=$!
local_() { etcdctl --endpoints unix://client.sock:0 "$@"; }
tries=0
until local_ endpoint health >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] && kill -0 "$reader" 2>/dev/null || {
    cat "$folder/log" >&2
    echo "etcd does not start over the snapshot: it was not kept" >&2
    exit 1
  }
  sleep 0.5
done
count() { "$@" get / --prefix --keys-only | grep -c .; }
saved=$(count local_) || saved=0
[ "$saved" -gt 0 ] || {
  echo "the snapshot holds no keys: it was not kept" >&2
  exit 1
}
revision=$(local_ get / --prefix --keys-only --limit 1 --write-out fields | sed -n 's/^"Revision" : //p')
echo "$saved keys at revision $revision; etcd has $(count remote) now"
